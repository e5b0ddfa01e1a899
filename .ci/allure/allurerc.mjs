// What the report shows. build.mjs names the places; the categories are those that the plugin wrote beside the results.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const { IPPERF_RESULTS: results = ".", IPPERF_OUTPUT: output, IPPERF_HISTORY: historyPath } = process.env;
const categories = join(results, "categories.json");

export default {
  name: "IPv6 against IPv4",
  output,
  historyPath,
  // Three months of nights.
  historyLimit: 92,
  // Who reads of a measurement does not ask for these.
  hideLabels: ["host", "thread", "language", "framework", "package", "parentSuite", "suite", "subSuite", "tag"],
  categories: { rules: existsSync(categories) ? JSON.parse(readFileSync(categories, "utf8")) : [] },
  plugins: {
    awesome: {
      options: {
        singleFile: true,
        reportLanguage: "en",
        groupBy: ["epic", "feature", "story"],
        layout: "split",
        sections: ["charts", "metrics"],
        defaultSection: "report",
        charts: [{ type: "statusDynamics", title: "Verdicts by session (skipped: inconclusive, unjudged or flagged)", limit: 30 }],
      },
    },
  },
};
