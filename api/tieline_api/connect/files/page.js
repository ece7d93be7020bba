// What the page knows, and what its user does with it.
import { ApiProblem } from "./api.js";
import { credentialOf, detailsOf, isGiven, planOf, stateOf } from "./credentials.js";
import { valuesOf, variablesOf, wrongIn } from "./inputs.js";
import { finished, goThere, initialise, openWindow, readiness, sendTo } from "./oauth.js";
import { forgetToken, isFramed } from "./token.js";
import { show, showEnd } from "./views.js";

const LOOK_MS = 500;
const MOST_CHECKS = 5;

/**
 * @typedef {object} Form The form that is open.
 * @property {any} template
 * @property {any} [connection] The connection that is connected again.
 * @property {string} scheme The id of the chosen scheme.
 * @property {Record<string, string>} values
 * @property {Record<string, string>} inputs What was entered for the inputs of the system.
 * @property {string[] | null} scopes null for the usual ones.
 * @property {Map<string, string>} problems
 * @property {string} problem
 * @property {boolean} isBusy
 * @property {number} attempt How often it was sent.
 * @property {boolean} isElsewhere Whether the user goes on in another window.
 * @property {boolean} isLeft Whether that window seems to be closed; of one at some systems, nobody can tell.
 * @property {boolean} isChecking Whether the system is being asked.
 * @property {boolean} isBlocked Whether the browser did not open one.
 */

/** What is known of the session, and what its user can do. */
export class Page {
  /** @type {any} */
  session = null;
  /** The variables as they were entered. @type {any} */
  entered = undefined;
  /** @type {Form | null} */
  form = null;
  /** The connection that the user is asked about. */
  leaving = "";
  /** @type {Map<string, string>} */
  problems = new Map();
  problem = "";
  isBusy = false;
  isSaved = false;
  isFramed = isFramed;
  #waiting = new AbortController();
  #isEnded = false;
  #product;
  /** Connections that were made here and not finished: they go when the user cancels. @type {Set<string>} */
  #unfinished = new Set();

  /**
   * @param {import("./api.js").Api} api
   * @param {any} brand
   * @param {(key: string, values?: Record<string, string>) => string} t
   * @param {import("./product.js").Product} product
   */
  constructor(api, brand, t, product) {
    this.api = api;
    this.brand = brand;
    this.t = t;
    this.#product = product;
  }

  /** The URL of this page with its token, for a tab of its own. */
  get ownUrl() {
    return `${window.location.pathname}${window.location.search}#${this.api.token}`;
  }

  /** @param {any} template */
  systemOf(template) {
    const texts = this.brand.systems?.[template.domain] ?? {};
    const purposes = texts.purpose ?? {};
    const language = document.documentElement.lang;
    const purpose = purposes[language] ?? purposes[language.split("-")[0] ?? ""] ?? purposes.en ?? "";
    const system = this.session.systems.find((/** @type {any} */ each) => each.id === template.id);
    const name = texts.name || system?.name || template.name;
    return {
      name,
      purpose,
      logo: texts.logo ?? "",
      domain: template.domain,
      hasCheck: system?.hasCheck === true,
      key: system?.catalogue ?? template.domain ?? name,
      // Where to find a credential: the brand's own words, in the reader's language, or the catalogue's.
      help: texts.help ?? {},
      found: system?.help ?? [],
    };
  }

  /** @param {any} template */
  connectionsOf(template) {
    const { connection, connections } = this.session;
    return connections.filter((/** @type {any} */ each) =>
      connection ? each.id === connection : each.connectionTemplateId === template.connectionTemplateId,
    );
  }

  async read() {
    this.session = await this.api.call("GET", "api/v2/connect/session");
    this.#product.allow(this.session.allowedOrigins);
  }

  /** @param {string} [focus] What gets the focus. @param {string} [said] What a screen reader says. */
  show(focus, said) {
    if (!this.#isEnded) show(this, focus, said);
  }

  /** @param {any} template @param {any} [connection] */
  open(template, connection) {
    this.#stopWaiting();
    const own = connection?.credentials[0]?.authSchemeConfig;
    const scheme = detailsOf(own ?? template.authSchemeConfigs[0]).id ?? "";
    this.form = {
      template,
      connection,
      scheme,
      values: {},
      inputs: {},
      scopes: null,
      problems: new Map(),
      problem: "",
      isBusy: false,
      attempt: 0,
      isElsewhere: false,
      isLeft: false,
      isChecking: false,
      isBlocked: false,
    };
    this.leaving = "";
    this.show(`form-${template.connectionTemplateId}`);
  }

  schemes() {
    const { template, connection } = /** @type {Form} */ (this.form);
    const own = connection?.credentials[0]?.authSchemeConfig;
    return own ? [own] : template.authSchemeConfigs;
  }

  scheme() {
    return this.schemes().find((/** @type {any} */ each) => detailsOf(each).id === this.form?.scheme);
  }

  /** The inputs of the form, with the values that they have. */
  inputs() {
    const { template, connection, inputs: entered } = /** @type {Form} */ (this.form);
    const inputs = template.inputs ?? [];
    const values = valuesOf(inputs, entered, connection?.variables);
    return { inputs, values, variables: variablesOf(inputs, values) };
  }

  /** Marks what cannot be right. @param {Form} form */
  #findsWrong(form) {
    const { inputs, variables } = this.inputs();
    const wrong = wrongIn(inputs, variables);
    form.problems = new Map(wrong.map((each) => [`input.${each.name}`, this.#wrongWords(each)]));
    const [first] = wrong;
    form.problem = first ? `${first.label || first.name}: ${this.#wrongWords(first)}` : "";
    return wrong.length > 0;
  }

  /** @param {import("./inputs.js").Input} input */
  #wrongWords({ example }) {
    return example ? this.t("wrongInputLike", { example }) : this.t("wrongInput");
  }

  async cancel() {
    const form = this.form;
    this.#stopWaiting();
    this.form = null;
    const made = form?.connection?.id;
    if (made && this.#unfinished.delete(made)) {
      try {
        await this.api.call("DELETE", `${this.#organisation}/connections/${made}`);
        await this.read();
      } catch (error) {
        this.fail(error);
      }
    }
    this.show(`system-${form?.template.connectionTemplateId}`);
  }

  #stopWaiting() {
    this.#waiting.abort();
    this.#waiting = new AbortController();
  }

  /** Stores what was entered, and sends the user to the system where that is how it goes. @param {boolean} here */
  async connect(here) {
    const form = this.form;
    if (!form || form.isBusy) return;
    this.#stopWaiting();
    if (this.#findsWrong(form)) {
      this.show(`form-${form.template.connectionTemplateId}`, form.problem);
      return;
    }
    form.attempt += 1;
    const { attempt } = form;
    const isCurrent = () => this.form === form && form.attempt === attempt;
    const plan = planOf(this.scheme());
    const opened = plan.authorise && !here ? openWindow() : null;
    const ready = readiness(opened);
    form.isBusy = true;
    form.isElsewhere = form.isLeft = false;
    form.isBlocked = Boolean(plan.authorise) && !here && !opened;
    form.problem = "";
    form.problems = new Map();
    this.show();
    try {
      if (form.isBlocked) return;
      await this.#store(form, plan);
      if (plan.authorise) await this.#authorise(form, { opened, ready });
      if (plan.authorise && here) return;
      if (isCurrent() && (await this.#isAccepted(form))) await this.#connected(form);
    } catch (error) {
      if (!form.isElsewhere || !isCurrent()) opened?.close();
      if (isCurrent()) this.#refused(form, error);
    } finally {
      if (isCurrent()) {
        form.isBusy = form.isElsewhere = form.isLeft = form.isChecking = false;
        this.show(`form-${form.template.connectionTemplateId}`, form.problem);
      }
    }
  }

  /** Asks the system whether it accepts the connection, where it can be asked. @param {Form} form */
  async #isAccepted(form) {
    const system = this.systemOf(form.template);
    if (!system.hasCheck) return true;
    form.isElsewhere = form.isLeft = false;
    form.isChecking = true;
    this.show(undefined, this.t("checking", { system: system.name }));
    const path = `${this.#organisation}/connections/${form.connection.id}`;
    const { ok, said } = await this.api.call("POST", `${path}/test`);
    if (ok) return true;
    form.connection = await this.api.call("GET", path);
    if (stateOf(form.connection, true) !== "refused") return true; // nothing is known, and that is shown
    form.problem = [this.t("refused", { system: system.name }), said && this.t("answered", { answer: said })]
      .filter(Boolean)
      .join(" ");
    return false;
  }

  /** Asks systems about connections of which nothing is known, such as those that were made in this window before. */
  async check() {
    const found = this.session.templates.flatMap((/** @type {any} */ template) =>
      this.systemOf(template).hasCheck
        ? this.connectionsOf(template).filter((/** @type {any} */ each) => each.state === "not_checked")
        : [],
    );
    if (found.length === 0) return;
    const ids = [...new Set(found.map((/** @type {any} */ each) => each.id))].slice(0, MOST_CHECKS);
    await Promise.allSettled(
      ids.map((each) => this.api.call("POST", `${this.#organisation}/connections/${each}/test`)),
    );
    await this.read();
    this.show();
  }

  /** @param {Form} form @param {import("./credentials.js").Plan} plan */
  async #store(form, plan) {
    const credential = credentialOf(plan, form.values);
    const { inputs, variables } = this.inputs();
    const names = new Set(inputs.map((/** @type {any} */ each) => each.name));
    const others = (form.connection?.variables ?? []).filter((/** @type {any} */ each) => !names.has(each.name));
    const given = inputs.length > 0 ? { variables: [...variables, ...others] } : {};
    if (!form.connection) {
      const made = await this.api.call("POST", `${this.#organisation}/connections`, {
        connectionTemplateId: form.template.connectionTemplateId,
        connection: {
          name: this.#name(),
          credentials: [{ authSchemeConfig: this.scheme(), credential }],
          ...given,
        },
      });
      form.connection = made;
      this.#unfinished.add(made.id);
    } else if (!plan.authorise) {
      const [first, ...more] = form.connection.credentials;
      const credentials = [{ id: first.id, credential }, ...more.map((/** @type {any} */ { id }) => ({ id }))];
      const path = `${this.#organisation}/connections/${form.connection.id}`;
      await this.api.call("PUT", path, { credentials, ...given });
    }
  }

  /** @param {Form} form @param {{ opened: Window | null, ready: Promise<void> }} window */
  async #authorise(form, { opened, ready }) {
    const { api, session } = this;
    const { connection } = form;
    const signal = this.#waiting.signal;
    const scheme = detailsOf(this.scheme());
    const scopes = form.scopes ?? scheme.defaultScopes ?? [];
    const wasWaiting = !isGiven(connection);
    const before = connection.updatedAt;
    const { variables } = this.inputs();
    const state = await initialise(api, session, connection, connection.credentials[0], scopes, variables);
    if (signal.aborted) throw signal.reason;
    if (!opened) {
      await goThere(api, state);
      return;
    }
    form.isElsewhere = true;
    this.show();
    void sendTo(opened, ready, api.token, state);
    const path = `${this.#organisation}/connections/${connection.id}`;
    const isDone = async () => {
      const now = await api.call("GET", path);
      return isGiven(now) && (wasWaiting || now.updatedAt !== before);
    };
    const watching = window.setInterval(() => {
      if (!opened.closed || form.isLeft) return;
      // The user may have closed it, or its page has cut the way to this one: they may start again, or go on there.
      form.isLeft = true;
      form.isBusy = false;
      this.show();
    }, LOOK_MS);
    signal.addEventListener("abort", () => window.clearInterval(watching));
    const { ok, message } = await finished(state, isDone, signal).finally(() => window.clearInterval(watching));
    form.isBusy = true;
    if (ok) return;
    await api.call("GET", "api/v2/connect/session"); // throws where the session has ended meanwhile
    throw new ApiProblem(422, { message });
  }

  /** @param {Form} form */
  async #connected(form) {
    this.#unfinished.delete(form.connection.id);
    await this.read();
    if (this.form === form) this.form = null;
    this.isSaved = false;
    const system = this.systemOf(form.template).name;
    this.#product.tell("connected", {
      connectionId: form.connection.id,
      connectionTemplateId: form.template.connectionTemplateId,
    });
    this.show(`system-${form.template.connectionTemplateId}`, this.t("nowConnected", { system }));
  }

  /** @param {Form} form @param {unknown} error */
  #refused(form, error) {
    form.problem = this.#words(error);
    if (!(error instanceof ApiProblem)) return;
    const { variables } = this.inputs();
    for (const [path, message] of error.fields) {
      const at = /(?:^|\.)variables\[(\d+)\]/.exec(path)?.[1];
      const name = at === undefined ? undefined : variables[Number(at)]?.name;
      form.problems.set(name ? `input.${name}` : (path.split(".").at(-1) ?? ""), message);
    }
    if (error.status === 401) this.fail(error);
  }

  /** @param {any} template @param {any} connection */
  async disconnect(template, connection) {
    this.isBusy = true;
    this.problem = "";
    try {
      await this.api.call("DELETE", `${this.#organisation}/connections/${connection.id}`);
      this.#product.tell("disconnected", {
        connectionId: connection.id,
        connectionTemplateId: template.connectionTemplateId,
      });
      this.leaving = "";
      await this.read();
    } catch (error) {
      this.fail(error);
    } finally {
      this.isBusy = false;
    }
    const system = this.systemOf(template).name;
    const said = this.problem || this.t("nowDisconnected", { system });
    this.show(`system-${template.connectionTemplateId}`, said);
  }

  /** Activates the user with what is connected and entered, and ends. @param {() => Record<string, unknown>} read */
  async done(read) {
    const { session } = this;
    const connections = session.templates.flatMap((/** @type {any} */ template) =>
      this.connectionsOf(template)
        .slice(-1)
        .map((/** @type {any} */ each) => ({
          connectionTemplateId: template.connectionTemplateId,
          existingConnectionId: each.id,
        })),
    );
    this.isBusy = true;
    this.problem = "";
    this.problems = new Map();
    try {
      const dynamicVariables = read();
      if (!session.connection && (connections.length > 0 || session.activation)) {
        session.activation = await this.api.call("POST", `${this.#organisation}/activations`, {
          userId: session.user.externalId,
          environmentId: session.environment.id,
          connections,
          dynamicVariables,
        });
        this.#product.tell("activated", { activationId: session.activation.id });
      }
      this.isSaved = true;
    } catch (error) {
      this.fail(error);
      this.problem = error instanceof SyntaxError ? this.t("invalidJson") : this.#words(error);
      if (error instanceof ApiProblem) {
        for (const [path, message] of error.fields)
          this.problems.set(path.replace(/^dynamicVariables\.?/, ""), message);
      }
    }
    this.isBusy = false;
    this.show(this.problem ? "problem" : undefined, this.problem || this.t("saved"));
    if (this.problem) return;
    this.#product.tell("done");
    if (isFramed) return;
    if (session.returnUrl && !window.opener) {
      forgetToken();
      window.location.assign(session.returnUrl);
    } else window.close(); // of a window that a product has opened; others stay
  }

  /** What the Escape key does: it leaves the form, and then the page of a product. */
  escape() {
    if (this.form) void this.cancel();
    else this.#product.tell("close");
  }

  /** Shows what went wrong. @param {unknown} error */
  fail(error) {
    if (error instanceof ApiProblem && error.status === 401) {
      this.#isEnded = true;
      forgetToken();
      this.#product.tell("ended");
      showEnd(this.t("title"), this.t("ended"));
    }
    this.problem = this.#words(error);
  }

  /** @param {unknown} error */
  #words(error) {
    if (!(error instanceof ApiProblem)) return this.t("offline");
    return [...error.fields.values()][0] || error.message || this.t("failed");
  }

  get #organisation() {
    return `api/v2/o/${this.session.organisationId}`;
  }

  /** A name that no other connection of the system has. */
  #name() {
    const { displayName, externalId } = this.session.user;
    const number = crypto.getRandomValues(new Uint32Array(1))[0] ?? 0;
    return `${(displayName || externalId).slice(0, 40)} ${number.toString(36)}`;
  }
}
