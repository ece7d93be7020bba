import { type FormEvent, useState } from "react";
import { call, query } from "../api/client";
import type { Project } from "../api/projects";
import { useOrganisation } from "../app/organisation";
import { Card, Command, Empty, Failure, Json } from "./basics";

interface CallAnswer {
  status: number;
  headers: Record<string, string>;
  body: unknown;
}

const METHODS = ["POST", "GET", "PUT", "PATCH", "DELETE"];

/** Calls a webhook of an environment through the API, and shows the answer. */
export function WebhookForm({ project }: { project: Project }) {
  const organisation = useOrganisation();
  const running = project.environments.filter((each) => each.status === "running");
  const [environment, setEnvironment] = useState("");
  const chosen = running.find((each) => each.id === environment) ?? running[0];
  const [request, setRequest] = useState({ method: "POST", urlPath: "/", body: "{}" });
  const [result, setResult] = useState<CallAnswer>();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  if (!chosen) {
    return (
      <Card title="Webhooks">
        <Empty title="Nothing runs here">Deploy an environment, then call its webhooks from here.</Empty>
      </Card>
    );
  }
  const send = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    setResult(undefined);
    try {
      const where = `/api/v2/o/${organisation.id}/projects/${project.id}/environments/call${query({ env_id: chosen.id })}`;
      const body = request.method === "GET" ? undefined : request.body;
      const headers = body === undefined || !isJson(body) ? {} : { "Content-Type": "application/json" };
      const sent = { method: request.method, urlPath: request.urlPath, headers, body };
      setResult(await call<CallAnswer>("POST", where, sent));
    } catch (reason) {
      setError(reason);
    } finally {
      setBusy(false);
    }
  };
  const url = chosen.publicUrl ? `${chosen.publicUrl.replace(/\/$/, "")}${request.urlPath}` : "";
  return (
    <Card title="Webhooks">
      <form className="stack-s" onSubmit={send}>
        {url && <Command>{`curl -X ${request.method} '${url.replaceAll("'", "'\\''")}'`}</Command>}
        {organisation.canEdit && (
          <>
            <div className="row">
              <select
                className="input"
                aria-label="Environment"
                value={chosen.id}
                onChange={(event) => setEnvironment(event.target.value)}
              >
                {running.map((each) => (
                  <option key={each.id} value={each.id}>
                    {each.name}
                  </option>
                ))}
              </select>
              <select
                className="input"
                aria-label="Method"
                value={request.method}
                onChange={(event) => setRequest({ ...request, method: event.target.value })}
              >
                {METHODS.map((each) => (
                  <option key={each}>{each}</option>
                ))}
              </select>
              <input
                className="input grow"
                aria-label="Path"
                value={request.urlPath}
                onChange={(event) => setRequest({ ...request, urlPath: event.target.value })}
              />
              <button type="submit" className="button" disabled={busy}>
                {busy ? "Calling…" : "Call"}
              </button>
            </div>
            {request.method !== "GET" && (
              <textarea
                className="input"
                aria-label="Body"
                rows={5}
                spellCheck={false}
                value={request.body}
                onChange={(event) => setRequest({ ...request, body: event.target.value })}
              />
            )}
          </>
        )}
        <Failure error={error} />
        {result && (
          <>
            <div className={result.status < 400 ? "note good" : "note bad"}>
              The webhook answered {result.status}.
            </div>
            <Json value={result.body} />
          </>
        )}
      </form>
    </Card>
  );
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
