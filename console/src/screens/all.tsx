import type { ComponentChildren } from "preact";
import { clusterName, href } from "../cluster";
import { session } from "../net/api";
import type { Address } from "../router";
import { texts } from "../texts";
import { Empty } from "../ui/parts";
import { AccessScreen } from "./access";
import { BrokerScreen, BrokersScreen } from "./brokers";
import { GroupScreen } from "./group";
import { GroupsScreen } from "./groups";
import { JobsScreen } from "./jobs";
import { LetterScreen, LettersScreen } from "./letters";
import { MetricsScreen } from "./metrics";
import { OverviewScreen } from "./overview";
import { PipelinesScreen } from "./pipelines";
import { SchemaScreen, SchemasScreen } from "./schemas";
import { SqlScreen } from "./sql";
import { TopicScreen } from "./topic";
import { TopicsScreen } from "./topics";
import { TransactionsScreen } from "./transactions";

function whole(text: string | undefined): number | null {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

function lost(title: string, hint: string): ComponentChildren {
  return (
    <section class="sheet">
      <Empty icon="search" title={title}>
        <p>{hint}</p>
        <a class="button" href={href([])}>
          {texts.nav.overview}
        </a>
      </Empty>
    </section>
  );
}

/** The screen of an address. Keys make a new one of another name. */
export function screenOf({ path }: Address): ComponentChildren {
  const [screen = "", name, partition, offset] = path;
  if (!session.value?.clusters.some((one) => one.name === clusterName())) {
    return lost(texts.noCluster(clusterName()), texts.noClusterHint);
  }
  if (path.length === 0) return <OverviewScreen />;
  if (screen === "topics") {
    if (name === undefined) return <TopicsScreen />;
    const at = whole(partition);
    const from = whole(offset);
    if (path.length === 2) return <TopicScreen key={name} name={name} chosen={null} />;
    if (path.length === 4 && at !== null && from !== null)
      return <TopicScreen key={name} name={name} chosen={{ partition: at, offset: from }} />;
  }
  if (path.length === 1) {
    if (screen === "groups") return <GroupsScreen />;
    if (screen === "dead-letters") return <LettersScreen />;
    if (screen === "brokers") return <BrokersScreen />;
    if (screen === "schemas") return <SchemasScreen />;
    if (screen === "pipelines") return <PipelinesScreen />;
    if (screen === "access") return <AccessScreen />;
    if (screen === "sql") return <SqlScreen />;
    if (screen === "metrics") return <MetricsScreen />;
    if (screen === "transactions") return <TransactionsScreen />;
    if (screen === "jobs") return <JobsScreen />;
  }
  if (path.length === 2 && name !== undefined) {
    if (screen === "groups") return <GroupScreen key={name} name={name} />;
    if (screen === "dead-letters") return <LetterScreen key={name} topic={name} />;
    if (screen === "brokers") return <BrokerScreen key={name} id={name} />;
    if (screen === "schemas") return <SchemaScreen key={name} subject={name} />;
  }
  return lost(texts.notFound, texts.notFoundHint);
}
