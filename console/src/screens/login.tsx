import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type ApiError, asFault, comeBack, logIn, logInElsewhere, wayBack } from "../net/api";
import type { Session } from "../net/types";
import { go } from "../router";
import { texts } from "../texts";
import { Logo } from "../ui/icons";
import { Bones, Button, FaultBox, Field } from "../ui/parts";

const t = texts.login;

export function Login({ session }: { session: Session }): JSX.Element {
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [mechanism, setMechanism] = useState(session.mechanisms[0] ?? "");
  const [fault, setFault] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const attempt = async (work: () => Promise<void>): Promise<void> => {
    setBusy(true);
    setFault(null);
    try {
      await work();
    } catch (error) {
      setFault(asFault(error));
      setBusy(false);
    }
  };
  const hasPasswords = session.mechanisms.length > 0;
  return (
    <main class="login">
      <form
        class="sheet"
        onSubmit={(event) => {
          event.preventDefault();
          void attempt(() => logIn(username, password, mechanism || null));
        }}
      >
        <div class="brand">
          <Logo />
          {texts.product}
        </div>
        <h1>{t.title}</h1>
        <p class="soft">{t.lead}</p>
        {fault && <FaultBox fault={fault} />}
        {session.oidc && (
          <Button kind="main-action" disabled={isBusy} onClick={() => void attempt(logInElsewhere)}>
            {isBusy ? texts.working : t.elsewhere}
          </Button>
        )}
        {hasPasswords && session.oidc && <p class="soft">{t.byPassword}</p>}
        {hasPasswords && (
          <>
            <Field name={t.user}>
              <input
                value={username}
                autocomplete="username"
                onInput={(event) => setUsername(event.currentTarget.value)}
              />
            </Field>
            <Field name={t.password}>
              <input
                type="password"
                autocomplete="current-password"
                value={password}
                onInput={(event) => setPassword(event.currentTarget.value)}
              />
            </Field>
            {session.mechanisms.length > 1 && (
              <Field name={t.mechanism}>
                <select value={mechanism} onChange={(event) => setMechanism(event.currentTarget.value)}>
                  {session.mechanisms.map((one) => (
                    <option key={one}>{one}</option>
                  ))}
                </select>
              </Field>
            )}
            <Button kind={session.oidc ? "" : "main-action"} type="submit" disabled={isBusy || !username}>
              {isBusy ? texts.working : t.submit}
            </Button>
          </>
        )}
      </form>
    </main>
  );
}

/** What the issuer sent the browser back with; then the page that the login began on. */
export function ComeBack({ query }: { query: Record<string, string> }): JSX.Element {
  const [fault, setFault] = useState<ApiError | null>(null);
  useEffect(() => {
    comeBack(query).then(
      () => go(wayBack(), "replace"),
      (error: unknown) => setFault(asFault(error)),
    );
  }, []);
  return (
    <main class="login">
      <h1 class="sr">{t.title}</h1>
      {fault ? <FaultBox fault={fault} retry={() => go(wayBack(), "replace")} /> : <Bones rows={3} />}
    </main>
  );
}
