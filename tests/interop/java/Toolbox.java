import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.InputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main method of Kafka's own command line tools, one after the other, in one JVM: starting a JVM for each
 * costs more than the tool's work. A command is the tool's class, its arguments and its standard input; the answer
 * is its exit code and what it printed.
 */
public class Toolbox {
    static class Exited extends RuntimeException {
        Exited(int code) {
            super("exit " + code, null, false, false);
        }
    }

    static byte[] block(DataInputStream in) throws Exception {
        return in.readNBytes(in.readInt());
    }

    static String text(DataInputStream in) throws Exception {
        return new String(block(in), StandardCharsets.UTF_8);
    }

    static void answer(DataOutputStream out, byte[] bytes) throws Exception {
        out.writeInt(bytes.length);
        out.write(bytes);
    }

    /** A tool may catch what its own exit throws here and exit again with another code: the first code is the true one. */
    static Integer firstCode;
    static final List<Runnable> shutdownHooks = new ArrayList<>();

    static int run(String tool, String[] arguments) throws Exception {
        firstCode = null;
        shutdownHooks.clear();
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (firstCode == null) {
                thrown.getCause().printStackTrace();
                firstCode = 99;
            }
        }
        shutdownHooks.forEach(Runnable::run);
        return firstCode == null ? 0 : firstCode;
    }

    static void exit(int code) {
        if (firstCode == null) {
            firstCode = code;
        }
        throw new Exited(code);
    }

    public static void main(String[] unused) throws Exception {
        Exit.setExitProcedure((code, message) -> exit(code));
        Exit.setHaltProcedure((code, message) -> exit(code));
        Exit.setShutdownHookAdder((name, hook) -> shutdownHooks.add(hook));
        PrintStream stdout = System.out;
        PrintStream stderr = System.err;
        InputStream stdin = System.in;
        DataInputStream in = new DataInputStream(stdin);
        DataOutputStream out = new DataOutputStream(stdout);
        while (true) {
            String tool;
            try {
                tool = text(in);
            } catch (EOFException end) {
                Runtime.getRuntime().halt(0);
                return;
            }
            String[] arguments = new String[in.readInt()];
            for (int index = 0; index < arguments.length; index++) {
                arguments[index] = text(in);
            }
            System.setIn(new ByteArrayInputStream(block(in)));
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            ByteArrayOutputStream complained = new ByteArrayOutputStream();
            System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(complained, true, StandardCharsets.UTF_8));
            int code;
            try {
                code = run(tool, arguments);
            } finally {
                System.out.flush();
                System.err.flush();
                System.setOut(stdout);
                System.setErr(stderr);
            }
            out.writeInt(code);
            answer(out, printed.toByteArray());
            answer(out, complained.toByteArray());
            out.flush();
        }
    }
}
