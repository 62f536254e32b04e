/**
 * A reporter for node:test that writes the totals of a run as one line of JSON: {"passed", "failed", "skipped", "files"}.
 * Cancelled tests count as failed, and todo tests as skipped. `files` has { file, seconds } for each test file.
 */
export default async function* countReporter(events) {
  const counts = { pass: 0, fail: 0, cancelled: 0, skipped: 0, todo: 0 };
  const files = [];
  for await (const { type, data } of events) {
    // Each test file is a suite whose name is its path.
    if (type === 'test:complete' && data.nesting === 0 && data.name.endsWith('.test.js'))
      files.push({ file: data.name, seconds: data.details.duration_ms / 1e3 });
    // A suite itself fails if its file cannot be loaded or a hook fails; node:test's totals do not count such a failure.
    const failure = type === 'test:fail' && data.details.type === 'suite' && data.details.error?.failureType;
    if (failure && failure !== 'subtestsFailed') counts.fail++;
    if (type !== 'test:diagnostic' || data.nesting !== 0) continue;
    const [name, count] = data.message.split(' ');
    if (name in counts) counts[name] += Number(count);
  }
  const failed = counts.fail + counts.cancelled;
  yield `${JSON.stringify({ passed: counts.pass, failed, skipped: counts.skipped + counts.todo, files })}\n`;
}
