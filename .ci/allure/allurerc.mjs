// Settings of the report. build.mjs passes the paths; the plugin has written the categories beside the results.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const { IPPERF_RESULTS: results = ".", IPPERF_OUTPUT: output, IPPERF_HISTORY: historyPath } = process.env;
const categories = join(results, "categories.json");

export default {
  name: "IPv6 against IPv4",
  output,
  historyPath,
  // Nights of three months.
  historyLimit: 92,
  // Labels that mean nothing for a measurement.
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
