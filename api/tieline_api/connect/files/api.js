// Calls of the API with the session's token.

/** An answer that is an error, in words for people. */
export class ApiProblem extends Error {
  /**
   * @param {number} status
   * @param {{ message?: string, fields?: { field: string, message: string }[] }} body
   */
  constructor(status, body) {
    super(body.message || "");
    this.status = status;
    /** @type {Map<string, string>} What is wrong with each field, by its path. */
    this.fields = new Map((body.fields ?? []).map((each) => [each.field, each.message]));
  }
}

const REVISION = "X-Tieline-Revision";

export class Api {
  #token;
  #base;
  /** What was written last: a replica that does not know it yet must not answer. */
  #revision = "";

  /**
   * @param {string} token
   * @param {URL} base What the API's paths are below of.
   */
  constructor(token, base) {
    this.#token = token;
    this.#base = base;
  }

  get token() {
    return this.#token;
  }

  /**
   * The answer to a request. Throws ApiProblem, and TypeError where there is no answer.
   * @param {string} method
   * @param {string} path
   * @param {unknown} [body]
   * @param {RequestCredentials} [cookies]
   * @returns {Promise<any>}
   */
  async call(method, path, body, cookies = "omit") {
    const response = await fetch(new URL(path, this.#base), {
      method,
      headers: {
        Authorization: `Bearer ${this.#token}`,
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...(this.#revision ? { [REVISION]: this.#revision } : {}),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      credentials: cookies,
      cache: "no-store",
      signal: AbortSignal.timeout(60_000),
    });
    this.#revision = response.headers.get(REVISION) ?? this.#revision;
    const text = await response.text();
    let found = null;
    try {
      found = text ? JSON.parse(text) : null;
    } catch {
      throw new ApiProblem(response.status, {});
    }
    if (!response.ok) throw new ApiProblem(response.status, found ?? {});
    return found;
  }
}
