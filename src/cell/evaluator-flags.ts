/**
 * Node's flags for a process with an evaluator. After a termination, Node's count of nested asynchronous contexts is
 * wrong until the evaluator repairs this count; without the first flag Node would end the process. The second flag suppresses
 * Node's warning that importing from a script is experimental. The third flag turns off V8's compiler Maglev. Node 22 uses
 * Maglev by default, and it crashes on cells' variables (a loop of 1,000 `console.log`, run four times).
 */
export const EVALUATOR_FLAGS: readonly string[] = [
  '--no-force-async-hooks-checks',
  '--disable-warning=ExperimentalWarning',
  ...(process.versions.node.startsWith('22.') ? ['--no-maglev'] : []),
];
