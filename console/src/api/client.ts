import createClient from "openapi-fetch";
import { noteContact } from "../lib/contact";
import { warnings } from "../lib/warnings";
import type { components, paths } from "./schema";

export type Schemas = components["schemas"];

/** What the API says about a request that it refuses (docs/api.md, "Errors"). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly fields: { field: string; message: string }[] = [],
  ) {
    super(message);
  }
}

const TIMEOUT_MS = 30_000;
// No other page can send this header to the API: it is how the API knows the console's own requests.
const OWN_HEADER = { "X-Tieline-Console": "1" };

let signedOut: () => void = () => {};
let warned: (text: string) => void = () => {};

/** What to do with a warning about a change that the API has made. Returns what ends it. */
export function onWarning(callback: (text: string) => void): () => void {
  warned = callback;
  return () => {
    warned = () => {};
  };
}

/** What to do when the API does not know the session any more. */
export function onSignedOut(callback: () => void): void {
  signedOut = callback;
}

async function limited(request: Request): Promise<Response> {
  const signal = AbortSignal.any([request.signal, AbortSignal.timeout(TIMEOUT_MS)]);
  try {
    const response = await fetch(new Request(request, { signal }));
    noteContact(true);
    if (request.method !== "GET" && response.ok) warnings(response.headers.get("Warning")).forEach(warned);
    return response;
  } catch (error) {
    if (!request.signal.aborted) noteContact(false);
    throw error;
  }
}

/** The API by its OpenAPI document. Failures come as ApiError from `answer`. */
export const api = createClient<paths>({ headers: OWN_HEADER, credentials: "same-origin", fetch: limited });

interface Outcome<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** The body of an answer, or an ApiError. */
export async function answer<T>(outcome: Promise<Outcome<T>>): Promise<T> {
  const { data, error, response } = await outcome.catch((reason: unknown) => {
    if (reason instanceof DOMException && reason.name === "AbortError") throw reason;
    throw new ApiError(0, "unreachable", "The API does not respond. The page retries automatically.");
  });
  if (response.ok) return data as T;
  throw refusal(response, error);
}

function refusal(response: Response, body: unknown): ApiError {
  if (response.status === 401) signedOut();
  const found = (typeof body === "object" && body !== null ? body : {}) as Partial<Schemas["Error"]>;
  const message = typeof found.message === "string" ? found.message : `The API answered ${response.status}.`;
  const fields = Array.isArray(found.fields) ? (found.fields as { field: string; message: string }[]) : [];
  return new ApiError(response.status, found.code ?? "unknown", message, fields);
}

/** A request to a path that the OpenAPI document does not have: the session's. */
export async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  const response = await limited(
    new Request(path, {
      method,
      credentials: "same-origin",
      headers: body === undefined ? OWN_HEADER : { ...OWN_HEADER, "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    }),
  ).catch(() => {
    throw new ApiError(0, "unreachable", "The API does not respond. The page retries automatically.");
  });
  const text = await response.text();
  let parsed: unknown;
  try {
    parsed = text ? JSON.parse(text) : undefined;
  } catch {
    parsed = undefined;
  }
  if (!response.ok) throw refusal(response, parsed);
  return parsed as T;
}
