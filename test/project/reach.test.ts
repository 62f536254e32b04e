import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { HAS_ALL_CASES } from '../support/cases';
import { importScript } from './scripts';

interface Declaration {
  readonly file: { readonly path: string };
  readonly name: string;
}

interface Graph {
  reachOf(path: string): ReadonlyMap<Declaration, unknown>;
}

interface Reach {
  readDeclarations(path: string, text: string): object;
  Graph: new (files: readonly object[], paths: readonly string[]) => Graph;
  readGraph(paths: readonly string[]): Graph;
  repositoryFiles(): readonly string[];
  changedDeclarations(
    graph: Graph,
    path: string,
    before: string,
    after: string,
  ): readonly Declaration[] | undefined;
  textHere(path: string): string;
}

const FILES = ['declarations', 'graph', 'sources', 'changes'];

async function load(): Promise<Reach> {
  const modules = await Promise.all(FILES.map((name) => importScript<Reach>(`reach/${name}`)));
  return Object.assign({}, ...modules) as Reach; // the exports of the four files
}

/** What `test/a.test.ts` reaches in a made-up repository. */
async function reachedIn(texts: Readonly<Record<string, string>>): Promise<readonly string[]> {
  const { readDeclarations, Graph } = await load();
  const files = Object.entries(texts).map(([path, text]) => readDeclarations(path, text));
  const reach = new Graph(files, Object.keys(texts)).reachOf('test/a.test.ts');
  return [...reach.keys()].map(({ file, name }) => `${file.path}#${name}`).sort();
}

describe('a test reaches', () => {
  const cases: Readonly<Record<string, [Record<string, string>, reached: string[], not: string[]]>> = {
    'the functions that it calls, and not those beside them': [
      {
        'test/a.test.ts': `import { used as u } from '../src/b'; u();`,
        'src/b.ts': 'export function used() { helper(); }\nfunction helper() {}\nexport function other() {}',
      },
      ['src/b.ts#used', 'src/b.ts#helper'],
      ['src/b.ts#other'],
    ],
    'nothing by types': [
      {
        'test/a.test.ts': `import type { A } from '../src/b'; import { type B } from '../src/c'; const a: A & B = 1;`,
        'src/b.ts': 'export class A { run() {} }',
        'src/c.ts': 'export class B {}',
      },
      [],
      ['src/b.ts#A', 'src/c.ts#B'],
    ],
    'what is exported again, by name and by star': [
      {
        'test/a.test.ts': `import { a, b } from '../src/all'; a(); b();`,
        'src/all.ts': `export { one as a } from './one'; export * from './two';`,
        'src/one.ts': 'export const one = () => 1; export const no = 2;',
        'src/two.ts': 'export const b = () => 1;',
      },
      ['src/one.ts#one', 'src/two.ts#b'],
      ['src/one.ts#no'],
    ],
    'methods that are called, and not others': [
      {
        'test/a.test.ts': `import { Run } from '../src/run'; new Run().step();`,
        'src/run.ts': `import { draw } from './draw';\nexport class Run { step() { this.#next(); } #next() {} memory() { draw(); } }`,
        'src/draw.ts': 'export function draw() {}',
      },
      ['src/run.ts#Run', 'src/run.ts#Run.step', 'src/run.ts#Run.#next'],
      ['src/run.ts#Run.memory', 'src/draw.ts#draw'],
    ],
    'what await import and require load, if it is named': [
      {
        'test/a.test.ts': `const { go } = await import('../src/b.js'); require('../src/c').stay();`,
        'src/b.ts': 'export function go() {} export function no() {}',
        'src/c.ts': 'export function stay() {}',
      },
      ['src/b.ts#go', 'src/c.ts#stay'],
      ['src/b.ts#no'],
    ],
    'the program of a process that it starts': [
      {
        'test/a.test.ts': `import { start } from './support/start'; start();`,
        'test/support/start.ts': `const MAIN = join(__dirname, '..', '..', 'kernel', 'main.js'); export const start = () => spawn(MAIN);`,
        'kernel/main.ts': `import { serve } from './front'; serve();`,
        'kernel/front.ts': `export function serve() { new Worker(join(__dirname, 'thread.js')); }`,
        'kernel/thread.ts': 'main(); function main() {}',
      },
      ['kernel/front.ts#serve', 'kernel/thread.ts#main'],
      [],
    ],
    'what its cells name': [
      {
        'test/a.test.ts': `execute("import * as sl from 'shardlab'; sl.plan()");`,
        'src/index.ts': `export { plan } from './plan'; export { launch } from './launch';`,
        'src/plan.ts': 'export function plan() {}',
        'src/launch.ts': 'export function launch() {}',
      },
      ['src/plan.ts#plan'],
      ['src/launch.ts#launch'],
    ],
    'all methods of a class of another library': [
      {
        'test/a.test.ts': `import { Sink } from '../src/b'; new Sink();`,
        'src/b.ts': `import { Writable } from 'node:stream';\nexport class Sink extends Writable { _write() {} }`,
      },
      ['src/b.ts#Sink._write'],
      [],
    ],
  };
  for (const [what, [texts, reached, not]] of Object.entries(cases)) {
    it(what, async () => {
      const found = await reachedIn(texts);
      assert.deepEqual(
        reached.filter((name) => !found.includes(name)),
        [],
      );
      assert.deepEqual(
        not.filter((name) => found.includes(name)),
        [],
      );
    });
  }
});

test('comments and types change no declaration; code, imports and removed methods do', async () => {
  const { readDeclarations, Graph, changedDeclarations } = await load();
  const path = 'src/a.ts';
  const text = `import { b } from './b';\n/** Before. */\nexport function f() { return b(); }\nexport class C { m() {} n() {} }\ninterface I { x: 1 }`;
  const graph = new Graph([readDeclarations(path, text)], [path]);
  const changed = (before: string): readonly string[] =>
    (changedDeclarations(graph, path, before, text) ?? []).map(({ name }) => name);
  assert.deepEqual(changed(text.replace('Before', 'After').replace('x: 1', 'x: 2')), []);
  assert.deepEqual(changed(text.replace('return b()', 'return 1 + b()')), ['f']);
  assert.deepEqual(changed(text.replace('./b', './c')), ['f']);
  assert.deepEqual(changed(text.replace('m() {}', 'm() { 1; }')), ['C.m']);
  assert.deepEqual(changed(text.replace('n() {}', 'n() {} o() {}')), ['C']);
});

describe('in this repository', () => {
  const graphHere = load().then((reach) => ({ ...reach, graph: reach.readGraph(reach.repositoryFiles()) }));

  async function reaches(test: string, path: string): Promise<boolean> {
    const { graph, changedDeclarations, textHere } = await graphHere;
    const changed = changedDeclarations(graph, path, '', textHere(path));
    assert.ok(changed !== undefined && changed.length > 0, path);
    const reach = graph.reachOf(test);
    return changed.some((declaration) => reach.has(declaration));
  }

  const cases: readonly (readonly [path: string, reaching: readonly string[], not: readonly string[]])[] = [
    [
      'src/figures/traffic-matrix.ts',
      ['test/figures/traffic-matrix.test.ts', 'test/figures/figures.test.ts'],
      [
        'test/engine/autograd/unit.test.ts',
        'test/sharding/optim/sgd.test.ts',
        'test/sharding/parity/parity.slow.test.ts',
      ],
    ],
    [
      'src/engine/autograd/unit.ts',
      [
        'test/engine/autograd/unit.test.ts',
        'test/sharding/parity/parity.slow.test.ts',
        'test/session/run/run.slow.test.ts',
      ],
      ['test/figures/table.test.ts', 'test/extras/trl.test.ts'],
    ],
    // Extras are loaded by their path.
    [
      'src/extras/trl/trl.ts',
      ['test/extras/trl.test.ts', 'test/programs/keys.test.ts'],
      ['test/figures/table.test.ts'],
    ],
    // A rank's program, the kernel's program and the worker of a process.
    [
      'test/sharding/models-rank.ts',
      ['test/sharding/models.slow.test.ts'],
      ['test/sharding/wrap-policy.test.ts'],
    ],
    [
      'src/launch/rank/worker.ts',
      ['test/session/run/run.slow.test.ts', 'test/session/run/reshard.slow.test.ts'],
      ['test/wire/dist/device-mesh.test.ts'],
    ],
    [
      'kernel/executor/cell-runner.ts',
      ['test/kernel/protocol.slow.test.ts', 'test/project/execute.long.test.ts'],
      ['test/nn/moe.test.ts'],
    ],
    ['src/planner/dry-run/rank-thread.ts', ['test/planner/rank-threads.test.ts'], ['test/nn/moe.test.ts']],
    // Data.
    ['test/data/layer_reference.json', ['test/nn/layers.test.ts'], ['test/nn/llama.test.ts']],
    ['test/figures/golden/accuracy-few.txt', ['test/figures/figures.test.ts'], ['test/nn/llama.test.ts']],
    ['docs/reference/settings.md', ['test/config/settings-page.test.ts'], ['test/nn/llama.test.ts']],
    [
      'src/config/catalogue.json',
      ['test/planner/plan-input.test.ts'],
      ['test/wire/transport/mailbox.test.ts'],
    ],
    ['claims/fsdp-guide.json', ['test/cli/claims.test.ts'], ['test/wire/transport/mailbox.test.ts']],
    [
      'src/python/bundle_scripts/gpt.py',
      ['test/programs/export/bundle-files.test.ts'],
      ['test/wire/transport/mailbox.test.ts'],
    ],
  ];
  // A case reads the reach of a few tests, which takes a second.
  const here = HAS_ALL_CASES ? cases : cases.filter((_, i) => i % 3 === 0);
  for (const [path, reaching, not] of here) {
    it(`a change of ${path} reaches its tests, and not those of other parts`, async () => {
      for (const file of reaching) assert.ok(await reaches(file, path), file);
      for (const file of not) assert.ok(!(await reaches(file, path)), file);
    });
  }

  it('nothing is known of a file that no source names', async () => {
    const { graph, changedDeclarations } = await graphHere;
    assert.equal(changedDeclarations(graph, 'Makefile', '', 'x'), undefined);
  });
});
