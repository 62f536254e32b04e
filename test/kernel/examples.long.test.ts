import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { readSources } from '../project/sources';
import { repositoryRoot } from '../support/paths';
import { runExample } from './example-cells';
import { JupyterClient } from './jupyter-client';

/** Number of examples in a cell. */
const MOST_PER_CELL = 6;

const PAGE = readFileSync(join(repositoryRoot(), 'docs', 'reference', 'notebook.md'), 'utf8');

/** Examples of notebook cells. Those that declare names which other examples use come first. */
const NOTEBOOK = [
  ...[
    'launch',
    'train',
    'step',
    'memory',
    'comm',
    'compare',
    'plan',
    'recommend',
    'whatIf',
    'scaling',
    'traffic',
    'claims',
    'lr',
    'put',
    'readConfig',
    'lookup',
    'reproduce',
  ],
  ...['steps', 'addCallback', 'log'],
  ...['plot', 'get', 'evaluate', 'sample', 'experts', 'sampleVideo', 'savePretrained', 'export', 'parity'],
  ...['slider', 'select', 'onChange'],
];

/** Writes the file that the example of readConfig reads. */
const ACCELERATE = `import { rmSync, writeFileSync } from 'node:fs';
writeFileSync('accelerate.yaml', 'distributed_type: MULTI_GPU\\nnum_processes: 2\\nmixed_precision: "no"\\n')`;

/** Examples of cells of ranks, with the last extent of their input x. */
const RANKS: Readonly<Record<string, number>> = {
  ...{
    fullyShard: 1,
    fromPretrained: 1,
    dataLoader: 1,
    SyncBatchNorm: 1,
    Conv2d: 1,
    Dropout: 1,
    GroupNorm: 1,
    CrossEntropyLoss: 1,
  },
  ...{ MultiheadAttention: 64, MaxPool2d: 1, AdaptiveAvgPool2d: 1, LSTM: 28 },
  ...{ TransformerEncoderLayer: 1, TransformerEncoder: 1 },
  ...{
    moveState: 1,
    initializeModelParallel: 1,
    parallelizeModule: 1,
    parallelizeTensors: 1,
    contextParallel: 1,
    pipelineStages: 1,
    applyLoRA: 1,
  },
};

let client: JupyterClient;
before(async () => {
  client = await JupyterClient.start();
  writeFileSync(join(client.folder, 'text.txt'), 'To be, or not to be, that is the question. '.repeat(100));
  writeFileSync(
    join(client.folder, 'chats.jsonl'),
    '{"query": "To be?", "response": "Or not to be."}\n'.repeat(8),
  );
  writeFileSync(join(client.folder, 'my.txt'), 'To be, or not to be, that is the question. '.repeat(100));
});
after(() => client.stop());

const runs = (code: string): Promise<void> => runExample(client, code);

test('the code in the list of what a notebook calls runs', async () => {
  await runs(`const folder = '${join(client.folder, 'checkpoint')}'; const [a, b] = [run, run]; const [X, y, losses, validation] = [[1], [2], [3, 2], [3.5, 2.5]];
    const validated = await job.train({ model: 'tiny', data: { path: './my.txt', validation: 0.1 } });`);
  await runs("job.record('before')");
  await runs('%%ranks\nconst losses = [3, 2]; tf.ones([3]).dispose()');
  const items = PAGE.split('\n').filter((line) => /^(- | {2})/.test(line));
  const spans = items.flatMap((item) => [...item.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code));
  const written = spans.filter(
    (code) =>
      /^(await |\(await |run\.\w+\(|sl\.\w+\()/.test(code) &&
      !/…|^sl\.launch|shutdown|\?$|^await \w+Pretrained/.test(code),
  );
  assert.ok(written.length >= 15, `only ${written.length}`);
  const lines = written.map((code) => code.replace(/run(?=\.evaluate|.*evalSteps)/, 'validated'));
  for (const cell of joined(lines)) await runs(cell);
  await runs('await job.shutdown()');
});

test('the examples of the docstrings run', async () => {
  const examples = exampleOf(readSources('src'));
  assert.deepEqual([...examples.keys()].sort(), [...NOTEBOOK, ...Object.keys(RANKS), 'record'].sort());
  const notebook = NOTEBOOK.flatMap((name) => {
    const example = examples.get(name) ?? '';
    if (name === 'memory') return ['%%ranks\nconst losses = [3, 2]; tf.ones([3]).dispose();', example];
    if (name === 'readConfig') return [ACCELERATE, example, "rmSync('accelerate.yaml')"];
    if (name === 'plot') return ['const losses = [5.2, 4.3, 3.8];', example];
    // Cells of ranks run in the newest job.
    if (name === 'parity') return [example, 'await here.shutdown(); await there.shutdown();'];
    return [example];
  });
  for (const cell of joined(notebook)) await runs(cell);
  const inRanks = Object.entries(RANKS).map(([name, width]) => {
    const given = `const x = tf.ones([2, 5, ${width}]); class Net extends nn.Module { forward(x: tf.Tensor) { return x; } }`;
    return `{ ${given}\n${examples.get(name)} }`;
  });
  for (const cell of joined(inRanks)) await runs(`%%ranks\n${cell}`);
  for (const line of (examples.get('record') ?? '').trim().split('\n')) {
    await runs(line);
    await runs('%%ranks\ntf.ones([3]).dispose()');
  }
  await runs('await job.shutdown()');
});

/**
 * Examples as cells of several, because most of an example's time is the cell's type check. An example that declares a name which
 * an earlier one declares or uses is in another cell.
 */
function joined(examples: readonly string[]): readonly string[] {
  const cells: { code: string; count: number }[] = [];
  for (const code of examples) {
    const names = declaredBy(code);
    const last = cells.at(-1);
    const isFull = last === undefined || last.count >= MOST_PER_CELL;
    const fits = !isFull && ![...names].some((name) => new RegExp(`\\b${name}\\b`).test(last.code));
    if (!fits || /^%%/.test(code) || /^%%/.test(last.code)) cells.push({ code, count: 1 });
    else {
      cells[cells.length - 1] = { code: `${last.code}\n;${code}`, count: last.count + 1 };
    }
  }
  return cells.map(({ code }) => code);
}

/** The names that code declares outside of its blocks. */
function declaredBy(code: string): ReadonlySet<string> {
  if (code.startsWith('{')) return new Set();
  const found = code.matchAll(
    /\b(?:const|let|class|function|import|import \* as)\s+(?:[{[]([^}\]]*)[}\]]|(\w+))/g,
  );
  return new Set(
    [...found].flatMap(([, list, name]) => (list === undefined ? [name ?? ''] : (list.match(/\w+/g) ?? []))),
  );
}

/** The examples in docstrings, by the name that each documents. */
function exampleOf(sources: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const found = [...sources.values()].flatMap((text) => [
    ...text.matchAll(
      /@example\n([\s\S]*?)\*\/\s*(?:export )?(?:async |get )?(?:function |const |class )?(\w+)/g,
    ),
  ]);
  return new Map(found.map(([, lines = '', name = '']) => [name, lines.replace(/^\s*\* ?/gm, '')]));
}
