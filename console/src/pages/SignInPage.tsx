import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";
import { type Method, SESSION, signIn } from "../api/session";
import { Command, Failure } from "../components/basics";

export function SignInPage({ methods }: { methods: Method[] }) {
  useEffect(() => {
    document.title = "Sign in · Tieline";
  }, []);
  return (
    <main className="signin">
      <div className="card">
        <div className="stack-s">
          <img src="/console/icon.svg" alt="" />
          <h1>Sign in to Tieline</h1>
        </div>
        <SignInWays methods={methods} />
      </div>
    </main>
  );
}

/** The ways to sign in. `elsewhere`: at an issuer in another tab, so that this page stays. */
export function SignInWays({ methods, elsewhere = false }: { methods: Method[]; elsewhere?: boolean }) {
  const issuer = methods.find((each) => each.type === "oidc");
  const token = methods.some((each) => each.type === "token");
  const back = elsewhere ? "/console/" : window.location.pathname + window.location.search;
  return (
    <>
      {issuer && (
        <a
          className="button primary"
          href={`/console/login?return=${encodeURIComponent(back)}`}
          {...(elsewhere ? { target: "_blank", rel: "noopener" } : {})}
        >
          Continue with {issuer.name}
          {elsewhere && " in a new tab"}
        </a>
      )}
      {issuer && token && <div className="divider">or</div>}
      {token && <TokenForm primary={!issuer} />}
      {!issuer && !token && (
        <p className="dim">
          No way to sign in is configured. Set <code>TIELINE_CONSOLE_OIDC_ISSUER</code>, or allow tokens with{" "}
          <code>TIELINE_CONSOLE_TOKENS</code>.
        </p>
      )}
    </>
  );
}

function TokenForm({ primary }: { primary: boolean }) {
  const client = useQueryClient();
  const [token, setToken] = useState("");
  const [error, setError] = useState<unknown>();
  const [busy, setBusy] = useState(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await signIn(token.trim());
      await client.invalidateQueries({ queryKey: SESSION });
    } catch (reason) {
      setError(reason);
    } finally {
      setToken("");
      setBusy(false);
    }
  };
  return (
    <form className="stack-s" onSubmit={submit}>
      <div className="field">
        <label htmlFor="token">Token or API key</label>
        <input
          id="token"
          className="input"
          type="password"
          autoComplete="off"
          spellCheck={false}
          required
          value={token}
          onChange={(event) => setToken(event.target.value)}
        />
      </div>
      <button type="submit" className={primary ? "button primary" : "button"} disabled={busy}>
        {busy ? "Signing in…" : "Sign in"}
      </button>
      <Failure error={error} />
      <p className="small dim">
        It goes to the API once, and the browser does not keep it. For a token of the cluster:
      </p>
      <Command>kubectl create token NAME -n NAMESPACE</Command>
    </form>
  );
}
