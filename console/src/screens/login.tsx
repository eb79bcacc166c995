import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { ApiError, logIn } from "../net/api";
import type { Session } from "../net/types";
import { texts } from "../texts";
import { Logo } from "../ui/icons";
import { Button, FaultBox, Field } from "../ui/parts";

const t = texts.login;

export function Login({ session }: { session: Session }): JSX.Element {
  const [username, setUsername] = useState("");
  const [password, setPassword] = useState("");
  const [mechanism, setMechanism] = useState(session.mechanisms[0] ?? "");
  const [fault, setFault] = useState<ApiError | null>(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async (): Promise<void> => {
    setBusy(true);
    setFault(null);
    try {
      await logIn(username, password, mechanism || null);
    } catch (error) {
      setFault(error instanceof ApiError ? error : new ApiError("INTERNAL", String(error), null, 0));
      setBusy(false);
    }
  };
  return (
    <main class="login">
      <form
        class="sheet"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <div class="brand">
          <Logo />
          {texts.product}
        </div>
        <h1>{t.title}</h1>
        <p class="soft">{t.lead}</p>
        {fault && <FaultBox fault={fault} />}
        <Field name={t.user}>
          <input value={username} autocomplete="username" onInput={(event) => setUsername(event.currentTarget.value)} />
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
        <Button kind="main-action" type="submit" disabled={isBusy || !username}>
          {isBusy ? texts.working : t.submit}
        </Button>
      </form>
    </main>
  );
}
