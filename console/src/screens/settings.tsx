import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { canWrite } from "../cluster";
import { type ApiError, asFault, post } from "../net/api";
import { useResource } from "../net/resource";
import type { Setting } from "../net/types";
import { matcher } from "../pure/filter";
import { visibleText } from "../pure/visible_text";
import { texts } from "../texts";
import { Dialog } from "../ui/dialog";
import { Badge, Button, FaultBox, Field, Filter, Loaded, TableBox } from "../ui/parts";
import { done } from "../ui/toasts";

const t = texts.settings;

/** The settings of a topic or a broker: value, where it comes from, what it does; changed ones first. */
export function Settings({ path }: { path: string }): JSX.Element {
  const from = useResource<{ settings: Setting[] }>(path);
  const [query, setQuery] = useState("");
  const [changing, setChanging] = useState<Setting | null>(null);
  return (
    <Loaded from={from} rows={12}>
      {(data) => {
        const fits = matcher(query);
        const shown = data.settings.filter((one) => fits(`${one.name} ${one.documentation ?? ""}`));
        shown.sort((a, b) => Number(b.is_changed) - Number(a.is_changed) || (a.name < b.name ? -1 : 1));
        return (
          <section class="sheet">
            <div class="sheet-head">
              <Filter label={t.filter} value={query} onInput={setQuery} />
              <span class="grow" />
              <span class="quiet">{t.changed(data.settings.filter((one) => one.is_changed).length)}</span>
            </div>
            <TableBox label={t.title} heads={[t.name, t.value, t.origin, ""]}>
              <tbody>
                {shown.map((one) => (
                  <tr key={one.name}>
                    <td class="setting">
                      <span class="mono">{one.name}</span>
                      {one.documentation && <div class="quiet clamp">{one.documentation}</div>}
                    </td>
                    <td class="mono wrap">
                      {one.is_sensitive ? <span class="quiet">{t.hidden}</span> : visibleText(one.value ?? "–")}
                      {one.is_changed && one.default !== null && <div class="quiet">{t.default(one.default)}</div>}
                    </td>
                    <td>
                      <Badge tone={one.is_changed ? "accent" : ""}>{one.origin}</Badge>
                    </td>
                    <td class="num">
                      {canWrite() && !one.is_read_only && (
                        <Button kind="small plain" onClick={() => setChanging(one)}>
                          {t.change}
                        </Button>
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </TableBox>
            {changing && (
              <ChangeSetting
                path={path}
                setting={changing}
                onClose={() => setChanging(null)}
                onDone={() => {
                  setChanging(null);
                  from.reload();
                }}
              />
            )}
          </section>
        );
      }}
    </Loaded>
  );
}

function ChangeSetting({
  path,
  setting,
  onClose,
  onDone,
}: {
  path: string;
  setting: Setting;
  onClose: () => void;
  onDone: () => void;
}): JSX.Element {
  const [value, setValue] = useState(setting.is_sensitive ? "" : (setting.value ?? ""));
  const [fault, setFault] = useState<ApiError | null>(null);
  const save = async (next: string | null): Promise<void> => {
    try {
      await post(path, { changes: { [setting.name]: next } });
      done(t.saved(setting.name));
      onDone();
    } catch (error) {
      setFault(asFault(error));
    }
  };
  return (
    <Dialog
      title={setting.name}
      onClose={onClose}
      onSubmit={() => void save(value)}
      foot={
        <>
          {setting.is_changed && <Button onClick={() => void save(null)}>{t.back}</Button>}
          <span class="grow" />
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button kind="main-action" type="submit">
            {t.save}
          </Button>
        </>
      }
    >
      {fault && <FaultBox fault={fault} />}
      {setting.documentation && <p class="soft">{setting.documentation}</p>}
      <Field name={t.value} note={setting.default === null ? undefined : t.default(setting.default)}>
        <input class="mono" value={value} onInput={(event) => setValue(event.currentTarget.value)} />
      </Field>
    </Dialog>
  );
}
