// node build.mjs RESULTS REPORT.html HISTORY.jsonl: build one page of Allure's results that loads nothing.
//
// Allure's own page loads a tracker's script. It is removed here, the page forbids its browser every request, and the
// rest is searched for addresses that could be fetched; if one is found, no page is written.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
// XML namespaces, a link to Allure's site, and a viewer that opens in a tab of its own on request.
const KNOWN = new Set(["www.w3.org", "allurereport.org", "trace.playwright.dev"]);
const TRACKER = /<script async src="https:\/\/www\.googletagmanager\.com\/[^"]*"><\/script>\s*<script>[^<]*gtag\([^<]*<\/script>/g;
const FORBID =
  "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval' data: blob:; style-src 'unsafe-inline' data: blob:; " +
  "img-src data: blob:; font-src data:; media-src data: blob:; connect-src data: blob:; frame-src data: blob:; " +
  "worker-src data: blob:; form-action 'none'; base-uri data: blob:";

class Trouble extends Error {}

/** Return the page without its tracker, and with a policy that forbids its browser to fetch anything. */
export function offline(html) {
  const head = '<meta charset="utf-8">';
  if (!html.includes(head)) throw new Trouble("Allure's page has no <meta charset>; this version is not known");
  const rule = `${head}\n    <meta http-equiv="Content-Security-Policy" content="${FORBID}">`;
  return html.replace(TRACKER, "").replace(head, rule);
}

/** Yield the elements of a page: name, attributes, and the text of a script or style; in linear time. */
function* elements(html) {
  const start = /<([a-z][a-z0-9-]*)/gi;
  const attribute = /([^\s=>"'\/]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>"']+)))?/gy;
  for (let found = start.exec(html); found; found = start.exec(html)) {
    const name = found[1].toLowerCase();
    const attributes = [];
    let at = start.lastIndex;
    while (at < html.length && html[at] !== ">") {
      attribute.lastIndex = at;
      const next = attribute.exec(html);
      if (next) attributes.push([next[1].toLowerCase(), (next[2] ?? next[3] ?? next[4] ?? "").trim()]);
      at = next ? attribute.lastIndex : at + 1;
    }
    let text = "";
    if (name === "script" || name === "style") {
      const end = html.indexOf(`</${name}`, at);
      text = html.slice(at + 1, end < 0 ? html.length : end);
      at += text.length;
    }
    start.lastIndex = at;
    yield { name, attributes, text };
  }
}

/** Return whether a script only holds the page's data, which may contain links to CI jobs. */
function isData(program) {
  const match = program.trim().match(/^window\.allureReportOptions = (\{.*\});?$/s);
  try {
    return Boolean(match && JSON.parse(match[1]));
  } catch {
    return false;
  }
}

/** Return the addresses that the page could fetch: those of elements, and those in scripts. */
export function fetched(html) {
  const found = new Set();
  const search = (program) => {
    for (const [, address, host] of program.matchAll(/((?:https?:|(?<=["'`(]))\/\/([\w-]+(?:\.[\w-]+)+))/gi)) {
      if (!KNOWN.has(host.toLowerCase())) found.add(address);
    }
  };
  for (const { name, attributes, text } of elements(html)) {
    if (!isData(text)) search(text);
    for (const [attribute, value] of attributes) {
      if (value.startsWith("data:")) {
        const coded = value.match(/^data:text\/(?:javascript|css);base64,/);
        if (coded) search(Buffer.from(value.slice(coded[0].length), "base64").toString("utf8"));
      } else if (attribute === "style" || attribute === "srcset") {
        search(value.replace(/^|,\s*/g, "("));
      } else if (/^(https?:)?\/\//i.test(value) && !attribute.startsWith("xmlns") && !(name === "a" && attribute === "href")) {
        found.add(value);
      }
    }
  }
  return [...found].sort();
}

const md5 = (text) => createHash("md5").update(text).digest("hex");

/** Return the history without the entry of these same results, so that a report built twice counts once. */
function withoutThese(history, results) {
  const documents = results.map((file) => JSON.parse(readFileSync(file, "utf8")));
  const last = md5(documents.reduce((one, other) => ((other.stop ?? 0) > (one.stop ?? 0) ? other : one)).uuid ?? "");
  const lines = existsSync(history) ? readFileSync(history, "utf8").split("\n").filter(Boolean) : [];
  const kept = lines.filter((line) => !Object.values(JSON.parse(line).testResults ?? {}).some((each) => each.id === last));
  return kept.map((line) => `${line}\n`).join("");
}

function build(folder, report, history) {
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith("-result.json")) : [];
  if (!names.length) throw new Trouble(`${folder} has no results of pytest --alluredir=${folder}`);
  const scratch = mkdtempSync(join(dirname(report), `.${basename(report)}-`));
  try {
    const output = join(scratch, "report");
    const past = join(scratch, "history.jsonl");
    writeFileSync(past, withoutThese(history, names.map((name) => join(folder, name))));
    const cli = join(HERE, "node_modules", "allure", "cli.js");
    const asked = ["generate", "--config", join(HERE, "allurerc.mjs"), "--output", output, folder];
    const env = { ...process.env, IPPERF_RESULTS: folder, IPPERF_OUTPUT: output, IPPERF_HISTORY: past };
    execFileSync(process.execPath, [cli, ...asked], { env, stdio: ["ignore", "ignore", "inherit"] });
    const page = offline(readFileSync(join(output, "index.html"), "utf8"));
    const left = fetched(page);
    if (left.length) throw new Trouble(`the page would fetch ${left.join(", ")}; it was not kept`);
    writeFileSync(join(scratch, "page.html"), page);
    renameSync(join(scratch, "page.html"), report);
    renameSync(past, history);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

if (process.argv[1] && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    build(...process.argv.slice(2, 5).map((path) => resolve(path)));
  } catch (error) {
    console.error(error instanceof Trouble ? error.message : `Allure could not make the page: ${error.message}`);
    process.exitCode = 1;
  }
}
