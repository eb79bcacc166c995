import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Kafka's StandardAuthorizer, asked line by line: `new EVERYONE`, `add N TYPE NAME PATTERN PRINCIPAL HOST OPERATION PERMISSION`,
 * `remove N`, `ask USER HOST OPERATION TYPE NAME` and `any USER HOST OPERATION TYPE`, all numbers as on the wire. The last two
 * answer 1 or 0.
 */
public class Authorizer {
    record Sender(KafkaPrincipal principal, InetAddress clientAddress) implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 0; }
        public int requestVersion() { return 0; }
        public String clientId() { return "client"; }
        public int correlationId() { return 0; }
    }

    static Sender sender(String user, String host) throws Exception {
        return new Sender(new KafkaPrincipal("User", user), InetAddress.getByName(host));
    }

    public static void main(String[] args) throws Exception {
        StandardAuthorizer authorizer = null;
        StringBuilder out = new StringBuilder();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] w = line.split("\t");
            switch (w[0]) {
                case "new":
                    Map<String, String> settings = new HashMap<>();
                    settings.put("super.users", "User:admin");
                    settings.put("allow.everyone.if.no.acl.found", w[1]);
                    authorizer = new StandardAuthorizer();
                    authorizer.configure(settings);
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                    authorizer.completeInitialLoad();
                    break;
                case "add":
                    authorizer.addAcl(new Uuid(0, Long.parseLong(w[1]) + 1000), new StandardAcl(
                        ResourceType.fromCode(Byte.parseByte(w[2])), w[3], PatternType.fromCode(Byte.parseByte(w[4])),
                        w[5], w[6], AclOperation.fromCode(Byte.parseByte(w[7])),
                        AclPermissionType.fromCode(Byte.parseByte(w[8]))));
                    break;
                case "remove":
                    authorizer.removeAcl(new Uuid(0, Long.parseLong(w[1]) + 1000));
                    break;
                case "ask":
                    ResourcePattern resource = new ResourcePattern(
                        ResourceType.fromCode(Byte.parseByte(w[4])), w[5], PatternType.LITERAL);
                    Action action = new Action(AclOperation.fromCode(Byte.parseByte(w[3])), resource, 1, true, true);
                    out.append(authorizer.authorize(sender(w[1], w[2]), List.of(action)).get(0)
                        == AuthorizationResult.ALLOWED ? '1' : '0');
                    break;
                case "any":
                    out.append(authorizer.authorizeByResourceType(sender(w[1], w[2]),
                        AclOperation.fromCode(Byte.parseByte(w[3])), ResourceType.fromCode(Byte.parseByte(w[4])))
                        == AuthorizationResult.ALLOWED ? '1' : '0');
                    break;
                default:
                    throw new IllegalArgumentException(line);
            }
        }
        System.out.print(out);
    }
}
