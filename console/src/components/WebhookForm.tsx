import { type FormEvent, useState } from "react";
import type { Schemas } from "../api/client";
import type { Project } from "../api/projects";
import { useSend } from "../api/queries";
import { useOrganisation } from "../app/organisation";
import { Card, Command, Empty, Failure, Json } from "./basics";

type Method = Schemas["WebhookCall"]["method"];

const METHODS: Method[] = ["POST", "GET", "PUT", "PATCH", "DELETE"];

export interface Example {
  method: Method;
  urlPath: string;
  body: string;
}

const RUN_HEADER = "x-tieline-execution-id";

/** The run that an answer is of. */
function runOf(answer: Schemas["WebhookAnswer"]): string | undefined {
  const found = Object.entries(answer.headers).find(([name]) => name.toLowerCase() === RUN_HEADER)?.[1];
  return Array.isArray(found) ? found[0] : found;
}

/** Calls a webhook of an environment through the API, and shows the answer. */
export function WebhookForm({
  project,
  example,
  onRun,
}: {
  project: Project;
  /** What the form begins with. */
  example?: Example;
  /** Called with the run that answered. */
  onRun?: (run: string, environment: string) => void;
}) {
  const organisation = useOrganisation();
  const send = useSend();
  const running = project.environments.filter((each) => each.status === "running");
  const [environment, setEnvironment] = useState("");
  const chosen = running.find((each) => each.id === environment) ?? running[0];
  const [request, setRequest] = useState<Example>(example ?? { method: "POST", urlPath: "/", body: "{}" });
  const [result, setResult] = useState<Schemas["WebhookAnswer"]>();
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  if (!chosen) {
    return (
      <Card title="Webhooks">
        {project.environments.some((each) => each.rollout?.state === "progressing") ? (
          <Empty title="Being rolled out">Its webhooks can be called from here in a moment.</Empty>
        ) : (
          <Empty title="Nothing runs here">Deploy an environment, then call its webhooks from here.</Empty>
        )}
      </Card>
    );
  }
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    setResult(undefined);
    try {
      const body = request.method === "GET" ? undefined : request.body;
      const headers: Record<string, string> =
        body === undefined || !isJson(body) ? {} : { "Content-Type": "application/json" };
      const sent = {
        method: request.method,
        urlPath: request.urlPath,
        headers,
        body,
        bodyEncoding: "text" as const,
      };
      const answer = await send("post", "/projects/{project_id}/environments/call", {
        at: { project_id: project.id },
        query: { env_id: chosen.id },
        body: sent,
      });
      setResult(answer);
      const run = runOf(answer);
      if (run) onRun?.(run, chosen.name);
    } catch (reason) {
      setError(reason);
    } finally {
      setBusy(false);
    }
  };
  const url = chosen.publicUrl ? `${chosen.publicUrl.replace(/\/$/, "")}${request.urlPath}` : "";
  return (
    <Card title="Webhooks">
      <form className="stack-s" onSubmit={submit}>
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
                onChange={(event) => setRequest({ ...request, method: event.target.value as Method })}
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
