import type { JSX } from "preact";
import { api } from "../cluster";
import { part } from "../net/api";
import { useResource } from "../net/resource";
import type { Access } from "../net/types";
import { visibleText } from "../pure/visible_text";
import { texts } from "../texts";
import { Badge, Empty, Loaded, Sheet, TableBox } from "../ui/parts";

const t = texts.access;

/** Which principals may do what on a topic. */
export function TopicAccess({ topic }: { topic: string }): JSX.Element {
  const from = useResource<Access>(`${api()}/access?resource=TOPIC&name=${part(topic)}`);
  return (
    <Loaded from={from}>
      {(data) =>
        data.principals.length === 0 ? (
          <section class="sheet">
            <Empty icon="access" title={t.noAccess}>
              <p>{t.noAccessHint}</p>
            </Empty>
          </section>
        ) : (
          <Sheet plain title={t.onTopic}>
            <TableBox label={t.onTopic} heads={[t.principal, t.operations]}>
              <tbody>
                {data.principals.map((one) => (
                  <tr key={one.principal}>
                    <td>{visibleText(one.principal)}</td>
                    <td>
                      <span class="badges">
                        {one.operations.map((each) => (
                          <span
                            key={each.operation}
                            title={
                              each.acl
                                ? `${each.acl.principal} ${each.acl.operation} ${each.acl.name} (${each.acl.pattern})`
                                : ""
                            }
                          >
                            <Badge tone={each.permission === "DENY" ? "bad" : "good"}>{each.operation}</Badge>
                          </span>
                        ))}
                      </span>
                    </td>
                  </tr>
                ))}
              </tbody>
            </TableBox>
          </Sheet>
        )
      }
    </Loaded>
  );
}
