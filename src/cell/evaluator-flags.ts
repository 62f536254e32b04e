/**
 * Flags of Node that a process with an evaluator needs: after a termination Node's count of nested asynchronous
 * contexts is off, and without the first flag Node then ends the process; the evaluator repairs the count. The second
 * flag suppresses Node's warning that importing from a script is experimental. The third: V8's middle compiler, which
 * Node 22 turned on, crashes there on cells' variables (a loop of 1,000 `console.log`, run four times).
 */
export const EVALUATOR_FLAGS: readonly string[] = [
  '--no-force-async-hooks-checks',
  '--disable-warning=ExperimentalWarning',
  ...(process.versions.node.startsWith('22.') ? ['--no-maglev'] : []),
];
