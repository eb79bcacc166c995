import type { JSX } from "preact";
import { api, canWrite } from "../cluster";
import { part, post } from "../net/api";
import { useResource } from "../net/resource";
import type { Job } from "../net/types";
import { count, duration, moment } from "../pure/format";
import { visibleText } from "../pure/visible_text";
import { texts } from "../texts";
import { Badge, Bar, Button, Empty, Head, Loaded, Sheet, TableBox, type Tone } from "../ui/parts";
import { tried } from "../ui/toasts";

const t = texts.jobs;

const TONES: Record<Job["state"], Tone> = { running: "accent", done: "good", failed: "bad", cancelled: "" };

export function JobsScreen(): JSX.Element {
  const from = useResource<{ jobs: Job[] }>(`${api()}/jobs`, 1_500);
  return (
    <>
      <Head title={t.title} lead={t.lead} />
      <Loaded from={from}>
        {(data) =>
          data.jobs.length === 0 ? (
            <section class="sheet">
              <Empty icon="jobs" title={t.none}>
                <p>{t.noneHint}</p>
              </Empty>
            </section>
          ) : (
            <Sheet plain>
              <TableBox label={t.title} heads={[t.job, t.state, t.progress, { num: t.took }, ""]}>
                <tbody>
                  {data.jobs.map((one) => (
                    <tr key={one.id}>
                      <td>
                        {visibleText(one.title)}
                        <div class="quiet">{moment(one.started_at)}</div>
                        {one.message && (
                          <div class={one.state === "failed" ? "bad wrap" : "quiet wrap"}>
                            {visibleText(one.message)}
                          </div>
                        )}
                      </td>
                      <td>
                        <Badge tone={TONES[one.state]}>{t.states[one.state]}</Badge>
                      </td>
                      <td class="moving">
                        {one.total !== null && one.total > 0 && <Bar share={one.done / one.total} label={t.progress} />}
                        <span class="soft">
                          {count(one.done)}
                          {one.total !== null && ` / ${count(one.total)}`} {one.unit}
                        </span>
                      </td>
                      <td class="num">{duration(((one.ended_at ?? Date.now()) - one.started_at) / 1000)}</td>
                      <td class="num">
                        {one.state === "running" && canWrite() && (
                          <Button
                            kind="small"
                            onClick={async () => {
                              await tried(post(`${api()}/jobs/${part(one.id)}/cancel`, {}));
                              from.reload();
                            }}
                          >
                            {t.cancel}
                          </Button>
                        )}
                      </td>
                    </tr>
                  ))}
                </tbody>
              </TableBox>
            </Sheet>
          )
        }
      </Loaded>
    </>
  );
}
