import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";

const page = join(import.meta.dirname, "../../src/ottla/console/page");
const LIMIT = 120 * 1024;

/** Every file of the bundle that index.html names: what the first load fetches. */
function firstLoad(): string[] {
  const html = readFileSync(join(page, "index.html"), "utf8");
  return ["index.html", ...[...html.matchAll(/(?:src|href)="\/([^"]+)"/g)].map((found) => found[1] as string)];
}

describe.skipIf(!existsSync(join(page, "index.html")))("bundle (npm run build)", () => {
  it("is at most 120 KB compressed at the first load", () => {
    const size = firstLoad().reduce((sum, name) => sum + gzipSync(readFileSync(join(page, name))).length, 0);
    expect(size).toBeGreaterThan(10_000);
    expect(size).toBeLessThanOrEqual(LIMIT);
  });

  it("has no inline script or style, which a strict CSP refuses", () => {
    const html = readFileSync(join(page, "index.html"), "utf8");
    expect(html).not.toMatch(/<script(?![^>]*\ssrc=)/);
    expect(html).not.toMatch(/<style|\sstyle=|\son\w+=/);
  });

  it("names no other origin to fetch from", () => {
    for (const name of readdirSync(join(page, "assets"))) {
      const text = readFileSync(join(page, "assets", name), "utf8");
      const addresses = [...text.matchAll(/https?:\/\/[a-z0-9.-]+/gi)].map((found) => found[0]);
      expect(addresses.filter((one) => !one.startsWith("http://www.w3.org"))).toEqual([]);
    }
  });
});

it("the lock file names no registry", () => {
  expect(readFileSync(join(import.meta.dirname, "../package-lock.json"), "utf8")).not.toContain('"resolved"');
});
