import { loadEnv } from "vite";
import { defineConfig } from "vitest/config";

export default defineConfig(({ mode }) => ({
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    outDir: "../src/ottla/console/page",
    emptyOutDir: true,
    target: "es2022",
    // a strict Content-Security-Policy refuses data: addresses
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
  },
  // npm run dev sends /api to a console that runs: OTTLA_CONSOLE=http://127.0.0.1:8080
  server: {
    host: "127.0.0.1",
    proxy: { "/api": { target: loadEnv(mode, ".", "OTTLA_")["OTTLA_CONSOLE"] ?? "http://127.0.0.1:8080", ws: true } },
  },
  test: { environment: "node", include: ["tests/**/*.test.ts"] },
}));
