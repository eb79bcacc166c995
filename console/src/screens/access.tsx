import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { api, canWrite, href } from "../cluster";
import { type ApiError, asFault, part, post, session } from "../net/api";
import { useResource } from "../net/resource";
import { useStore } from "../net/store";
import type { Acl, Audit, Explained, Quotas, Users } from "../net/types";
import { matcher } from "../pure/filter";
import { bytes, count, moment } from "../pure/format";
import { typedNumber } from "../pure/typed_number";
import { visibleText } from "../pure/visible_text";
import { address } from "../router";
import { texts } from "../texts";
import { Confirm, Dialog } from "../ui/dialog";
import { Badge, Button, Empty, FaultBox, Field, Filter, Head, Loaded, Note, Sheet, TableBox, Tabs } from "../ui/parts";
import { done } from "../ui/toasts";

const t = texts.access;

export const OPERATIONS = [
  "READ",
  "WRITE",
  "CREATE",
  "DELETE",
  "ALTER",
  "DESCRIBE",
  "CLUSTER_ACTION",
  "DESCRIBE_CONFIGS",
  "ALTER_CONFIGS",
  "IDEMPOTENT_WRITE",
  "ALL",
];
const RESOURCES = ["TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"];

export function AccessScreen(): JSX.Element {
  const at = useStore(address);
  const view = at.query["view"] ?? "";
  return (
    <>
      <Head title={t.title} lead={t.lead} />
      <Tabs
        label={t.views}
        tabs={[
          [null, t.users],
          ["acls", t.acls],
          ["explain", t.explain],
          ["quotas", t.quotas],
          ["audit", t.audit],
        ]}
      />
      {view === "acls" ? (
        <Acls />
      ) : view === "explain" ? (
        <Explain />
      ) : view === "quotas" ? (
        <QuotaList />
      ) : view === "audit" ? (
        <AuditList />
      ) : (
        <UserList />
      )}
    </>
  );
}

function UserList(): JSX.Element {
  const from = useResource<Users>(`${api()}/users`);
  const [isNew, setNew] = useState(false);
  const [dropping, setDropping] = useState<{ user: string; mechanism: string } | null>(null);
  return (
    <Loaded from={from}>
      {(data) => (
        <Sheet
          plain
          title={t.users}
          actions={
            canWrite() && (
              <Button kind="small" icon="plus" onClick={() => setNew(true)}>
                {t.addUser}
              </Button>
            )
          }
        >
          {data.users.length === 0 ? (
            <Empty icon="access" title={t.noUsers}>
              <p>{t.noUsersHint}</p>
              <pre>ottla start --secure{"\n"}ottla users add alice</pre>
            </Empty>
          ) : (
            <TableBox label={t.users} heads={[t.user, t.mechanisms, { num: t.aclCount }, t.quota, ""]}>
              <tbody>
                {data.users.map((one) => (
                  <tr key={one.user}>
                    <td>{visibleText(one.user)}</td>
                    <td>
                      <span class="badges">
                        {one.mechanisms.map((each) => (
                          <Badge key={each.mechanism}>{each.mechanism}</Badge>
                        ))}
                      </span>
                    </td>
                    <td class="num">{count(one.acl_count)}</td>
                    <td>{one.has_quota ? t.yes : "–"}</td>
                    <td class="num">
                      {canWrite() &&
                        one.mechanisms.map((each) => (
                          <Button
                            key={each.mechanism}
                            kind="small plain danger"
                            onClick={() => setDropping({ user: one.user, mechanism: each.mechanism })}
                          >
                            {t.dropUser(one.mechanisms.length > 1 ? each.mechanism : "")}
                          </Button>
                        ))}
                    </td>
                  </tr>
                ))}
              </tbody>
            </TableBox>
          )}
          {isNew && (
            <AddUser
              onClose={() => setNew(false)}
              onDone={() => {
                setNew(false);
                from.reload();
              }}
            />
          )}
          {dropping && (
            <Confirm
              title={t.dropUserTitle(dropping.user)}
              action={t.dropUser("")}
              path={`${api()}/users/${part(dropping.user)}/delete`}
              body={{ mechanism: dropping.mechanism }}
              onClose={() => setDropping(null)}
              onDone={() => {
                setDropping(null);
                from.reload();
              }}
            />
          )}
        </Sheet>
      )}
    </Loaded>
  );
}

function AddUser({ onClose, onDone }: { onClose: () => void; onDone: () => void }): JSX.Element {
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [mechanism, setMechanism] = useState("SCRAM-SHA-512");
  const [fault, setFault] = useState<ApiError | null>(null);
  return (
    <Dialog
      title={t.addUser}
      onClose={onClose}
      onSubmit={() => {
        post(`${api()}/users`, { user, password, mechanism }).then(
          () => {
            done(t.userAdded(user));
            onDone();
          },
          (error: unknown) => setFault(asFault(error)),
        );
      }}
      foot={
        <>
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button kind="main-action" type="submit" disabled={!user || !password}>
            {t.addUser}
          </Button>
        </>
      }
    >
      {fault && <FaultBox fault={fault} />}
      <Field name={t.user}>
        <input value={user} autocomplete="off" onInput={(event) => setUser(event.currentTarget.value)} />
      </Field>
      <Field name={t.password}>
        <input
          type="password"
          autocomplete="new-password"
          value={password}
          onInput={(event) => setPassword(event.currentTarget.value)}
        />
      </Field>
      <Field name={t.mechanism}>
        <select value={mechanism} onChange={(event) => setMechanism(event.currentTarget.value)}>
          <option>SCRAM-SHA-512</option>
          <option>SCRAM-SHA-256</option>
        </select>
      </Field>
    </Dialog>
  );
}

export function AclText({ acl }: { acl: Acl }): JSX.Element {
  return (
    <>
      <Badge tone={acl.permission === "DENY" ? "bad" : "good"}>{acl.permission}</Badge>{" "}
      <strong>{visibleText(acl.principal)}</strong> {acl.operation}{" "}
      <span class="soft">{acl.resource.toLowerCase()}</span>{" "}
      <span class="mono">
        {visibleText(acl.name)}
        {acl.pattern === "PREFIXED" ? "*" : ""}
      </span>
      {acl.host !== "*" && <span class="quiet"> {t.fromHost(acl.host)}</span>}
    </>
  );
}

function Acls(): JSX.Element {
  const from = useResource<{ acls: Acl[] }>(`${api()}/acls`);
  const [query, setQuery] = useState("");
  const [isNew, setNew] = useState(false);
  const [dropping, setDropping] = useState<Acl | null>(null);
  return (
    <Loaded from={from}>
      {(data) => {
        const fits = matcher(query);
        const shown = data.acls.filter((one) => fits(Object.values(one).join(" ")));
        return (
          <section class="sheet">
            <div class="sheet-head">
              <Filter label={t.filterAcls} value={query} onInput={setQuery} />
              <span class="grow" />
              {canWrite() && (
                <Button kind="small" icon="plus" onClick={() => setNew(true)}>
                  {t.addAcl}
                </Button>
              )}
            </div>
            {shown.length === 0 ? (
              <Empty icon="access" title={t.noAcls}>
                <p>{t.noAclsHint}</p>
              </Empty>
            ) : (
              <TableBox label={t.acls} heads={[t.rule, ""]}>
                <tbody>
                  {shown.map((one) => (
                    <tr key={Object.values(one).join("/")}>
                      <td>
                        <AclText acl={one} />
                      </td>
                      <td class="num">
                        {canWrite() && (
                          <Button kind="small plain danger" onClick={() => setDropping(one)}>
                            {t.dropAcl}
                          </Button>
                        )}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </TableBox>
            )}
            {isNew && (
              <AddAcl
                onClose={() => setNew(false)}
                onDone={() => {
                  setNew(false);
                  from.reload();
                }}
              />
            )}
            {dropping && (
              <Confirm
                title={t.dropAcl}
                action={t.dropAcl}
                path={`${api()}/acls/delete`}
                body={{ acls: [dropping] }}
                onClose={() => setDropping(null)}
                onDone={() => {
                  setDropping(null);
                  from.reload();
                }}
              >
                {() => (
                  <p>
                    <AclText acl={dropping} />
                  </p>
                )}
              </Confirm>
            )}
          </section>
        );
      }}
    </Loaded>
  );
}

function Select({
  value,
  options,
  onChange,
}: {
  value: string;
  options: readonly string[];
  onChange: (value: string) => void;
}): JSX.Element {
  return (
    <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      {options.map((one) => (
        <option key={one}>{one}</option>
      ))}
    </select>
  );
}

function AddAcl({ onClose, onDone }: { onClose: () => void; onDone: () => void }): JSX.Element {
  const [acl, setAcl] = useState<Acl>({
    principal: "User:",
    host: "*",
    operation: "READ",
    permission: "ALLOW",
    resource: "TOPIC",
    name: "",
    pattern: "LITERAL",
  });
  const [fault, setFault] = useState<ApiError | null>(null);
  const set = (change: Partial<Acl>): void => setAcl({ ...acl, ...change });
  return (
    <Dialog
      title={t.addAcl}
      onClose={onClose}
      onSubmit={() => {
        post(`${api()}/acls`, { acls: [acl] }).then(onDone, (error: unknown) => setFault(asFault(error)));
      }}
      foot={
        <>
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button kind="main-action" type="submit" disabled={!acl.name || acl.principal === "User:"}>
            {t.addAcl}
          </Button>
        </>
      }
    >
      {fault && <FaultBox fault={fault} />}
      <div class="form-row">
        <Field name={t.principal}>
          <input value={acl.principal} onInput={(event) => set({ principal: event.currentTarget.value })} />
        </Field>
        <Field name={t.permission} size="narrow">
          <Select value={acl.permission} options={["ALLOW", "DENY"]} onChange={(permission) => set({ permission })} />
        </Field>
        <Field name={t.operation}>
          <Select value={acl.operation} options={OPERATIONS} onChange={(operation) => set({ operation })} />
        </Field>
      </div>
      <div class="form-row">
        <Field name={t.resource}>
          <Select value={acl.resource} options={RESOURCES} onChange={(resource) => set({ resource })} />
        </Field>
        <Field name={t.name} size="wide">
          <input value={acl.name} onInput={(event) => set({ name: event.currentTarget.value })} />
        </Field>
        <Field name={t.pattern}>
          <Select value={acl.pattern} options={["LITERAL", "PREFIXED"]} onChange={(pattern) => set({ pattern })} />
        </Field>
        <Field name={t.host} size="narrow">
          <input value={acl.host} onInput={(event) => set({ host: event.currentTarget.value })} />
        </Field>
      </div>
      <p>
        <AclText acl={acl} />
      </p>
    </Dialog>
  );
}

/** "Why was this denied": the rule that decides. */
function Explain(): JSX.Element {
  const query = address.value.query;
  const [asked, setAsked] = useState({
    principal: query["principal"] ?? session.value?.user ?? "User:",
    operation: query["operation"] ?? "READ",
    resource: query["resource"] ?? "TOPIC",
    name: query["name"] ?? "",
    host: query["host"] ?? "*",
  });
  const [answer, setAnswer] = useState<Explained | null>(null);
  const [fault, setFault] = useState<ApiError | null>(null);
  const set = (change: Partial<typeof asked>): void => {
    setAsked({ ...asked, ...change });
    setAnswer(null);
  };
  return (
    <>
      <form
        class="sheet"
        onSubmit={(event) => {
          event.preventDefault();
          setFault(null);
          post<Explained>(`${api()}/explain`, asked).then(setAnswer, (error: unknown) => setFault(asFault(error)));
        }}
      >
        <div class="sheet-body form-row">
          <Field name={t.may}>
            <input value={asked.principal} onInput={(event) => set({ principal: event.currentTarget.value })} />
          </Field>
          <Field name={t.operation}>
            <Select value={asked.operation} options={OPERATIONS} onChange={(operation) => set({ operation })} />
          </Field>
          <Field name={t.resource}>
            <Select value={asked.resource} options={RESOURCES} onChange={(resource) => set({ resource })} />
          </Field>
          <Field name={t.name}>
            <input value={asked.name} onInput={(event) => set({ name: event.currentTarget.value })} />
          </Field>
          <Field name={t.host} size="narrow">
            <input value={asked.host} onInput={(event) => set({ host: event.currentTarget.value })} />
          </Field>
          <Button kind="main-action" type="submit">
            {t.ask}
          </Button>
        </div>
      </form>
      {fault && <FaultBox fault={fault} />}
      {answer && (
        <>
          <Note tone={answer.is_allowed ? "good" : "bad"}>
            <strong>{answer.is_allowed ? t.allowed : t.denied}</strong> {visibleText(answer.reason)}
          </Note>
          {answer.acls.length > 0 && (
            <Sheet title={t.rules}>
              <ul class="explain-list">
                {answer.acls.map((one) => (
                  <li key={Object.values(one.acl).join("/")}>
                    <AclText acl={one.acl} /> <span class="quiet">{one.effect}</span>
                  </li>
                ))}
              </ul>
            </Sheet>
          )}
        </>
      )}
    </>
  );
}

function quotaText(name: string, value: number): string {
  return name.endsWith("byte_rate") ? `${bytes(value)}/s` : count(value);
}

function QuotaList(): JSX.Element {
  const from = useResource<Quotas>(`${api()}/quotas`);
  const [editing, setEditing] = useState<Quotas["quotas"][number] | null>(null);
  return (
    <Loaded from={from}>
      {(data) => (
        <Sheet
          plain
          title={t.quotas}
          actions={
            canWrite() && (
              <Button kind="small" icon="plus" onClick={() => setEditing({ entity: { user: "" }, values: {} })}>
                {t.addQuota}
              </Button>
            )
          }
        >
          {data.quotas.length === 0 ? (
            <Empty icon="access" title={t.noQuotas}>
              <p>{t.noQuotasHint}</p>
            </Empty>
          ) : (
            <TableBox label={t.quotas} heads={[t.entity, t.limits, ""]}>
              <tbody>
                {data.quotas.map((one) => (
                  <tr key={JSON.stringify(one.entity)}>
                    <td>
                      {Object.entries(one.entity).map(([kind, name]) => (
                        <div key={kind}>
                          <span class="quiet">{kind}</span> {name === null ? t.everyOther : visibleText(name)}
                        </div>
                      ))}
                    </td>
                    <td>
                      {Object.entries(one.values).map(([name, value]) => (
                        <div key={name}>
                          <span class="mono">{name}</span> {quotaText(name, value)}
                        </div>
                      ))}
                    </td>
                    <td class="num">
                      {canWrite() && (
                        <Button kind="small plain" onClick={() => setEditing(one)}>
                          {texts.settings.change}
                        </Button>
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </TableBox>
          )}
          {editing && (
            <EditQuota
              quota={editing}
              onClose={() => setEditing(null)}
              onDone={() => {
                setEditing(null);
                from.reload();
              }}
            />
          )}
        </Sheet>
      )}
    </Loaded>
  );
}

const QUOTAS = ["producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"];

/** The form's words as new limits, null for those that are to go; or why they are none. */
export function quotaChanges(values: Record<string, string>): Record<string, number | null> | string {
  const changes: Record<string, number | null> = {};
  for (const [name, text] of Object.entries(values)) {
    const limit = typedNumber(text);
    if (typeof limit === "string" || (limit !== null && limit <= 0)) return t.wrongQuota(name);
    changes[name] = limit;
  }
  return changes;
}

function EditQuota({
  quota,
  onClose,
  onDone,
}: {
  quota: Quotas["quotas"][number];
  onClose: () => void;
  onDone: () => void;
}): JSX.Element {
  const isNew = Object.keys(quota.values).length === 0;
  const [user, setUser] = useState(quota.entity["user"] ?? "");
  const [values, setValues] = useState<Record<string, string>>(
    Object.fromEntries(Object.entries(quota.values).map(([name, value]) => [name, String(value)])),
  );
  const [fault, setFault] = useState<ApiError | null>(null);
  const changes = quotaChanges(values);
  const isWrong = typeof changes === "string";
  return (
    <Dialog
      title={t.quota}
      onClose={onClose}
      onSubmit={() => {
        if (isWrong) return;
        const entity = isNew ? { user: user || null } : quota.entity;
        post(`${api()}/quotas`, { entity, values: changes }).then(onDone, (error: unknown) => setFault(asFault(error)));
      }}
      foot={
        <>
          <Button onClick={onClose}>{texts.cancel}</Button>
          <Button kind="main-action" type="submit" disabled={isWrong}>
            {texts.settings.save}
          </Button>
        </>
      }
    >
      {fault && <FaultBox fault={fault} />}
      {isNew && (
        <Field name={t.user} note={t.quotaUserNote}>
          <input value={user} onInput={(event) => setUser(event.currentTarget.value)} />
        </Field>
      )}
      {QUOTAS.map((name) => (
        <Field key={name} name={name} note={t.quotaUnits[name]}>
          <input
            inputMode="decimal"
            value={values[name] ?? ""}
            onInput={(event) => setValues({ ...values, [name]: event.currentTarget.value })}
          />
        </Field>
      ))}
      {isWrong && <p class="bad">{changes}</p>}
    </Dialog>
  );
}

function AuditList(): JSX.Element {
  const [principal, setPrincipal] = useState("");
  const [decision, setDecision] = useState("");
  const from = useResource<Audit>(
    `${api()}/audit?limit=200&principal=${part(principal)}&operation=&decision=${decision}`,
    5_000,
  );
  return (
    <>
      <div class="form-row">
        <Field name={t.principal}>
          <input
            value={principal}
            placeholder="User:alice"
            onChange={(event) => setPrincipal(event.currentTarget.value)}
          />
        </Field>
        <Field name={t.decision} size="narrow">
          <select value={decision} onChange={(event) => setDecision(event.currentTarget.value)}>
            <option value="">{t.all}</option>
            <option value="allowed">{t.allowedShort}</option>
            <option value="denied">{t.deniedShort}</option>
          </select>
        </Field>
      </div>
      <Loaded from={from} rows={10}>
        {(data) => (
          <Sheet plain title={t.audit} actions={<span class="quiet">{t.auditSource(data.source)}</span>}>
            {data.events.length === 0 ? (
              <Empty icon="access" title={t.noAudit}>
                <p>{t.noAuditHint}</p>
              </Empty>
            ) : (
              <TableBox label={t.audit} heads={[t.at, t.principal, t.operation, t.resource, t.decision]}>
                <tbody>
                  {data.events.map((one, index) => (
                    <tr key={index}>
                      <td class="nowrap">{moment(one.at)}</td>
                      <td>
                        {visibleText(one.principal ?? "–")}
                        <div class="quiet">{visibleText(one.host ?? "")}</div>
                      </td>
                      <td>
                        {visibleText(one.operation)}
                        {one.detail && <div class="quiet wrap">{visibleText(one.detail)}</div>}
                      </td>
                      <td class="wrap">
                        <span class="quiet">{(one.resource ?? "").toLowerCase()}</span> {visibleText(one.name ?? "")}
                      </td>
                      <td>
                        {one.decision === "denied" && one.principal && one.resource && one.name ? (
                          <a
                            href={href(["access"], {
                              view: "explain",
                              principal: one.principal,
                              operation: one.operation,
                              resource: one.resource,
                              name: one.name,
                            })}
                            title={t.why}
                          >
                            <Badge tone="bad">{t.deniedShort}</Badge>
                          </a>
                        ) : (
                          <Badge tone={one.decision === "denied" ? "bad" : "good"}>
                            {one.decision === "denied" ? t.deniedShort : t.allowedShort}
                          </Badge>
                        )}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </TableBox>
            )}
          </Sheet>
        )}
      </Loaded>
    </>
  );
}
