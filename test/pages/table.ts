import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { documentScript } from '../programs/export/wan-export';
import { DOCUMENTS } from '../programs/read-files';
import { testData } from '../support/paths';
import { type Block, reasonOf } from './blocks';
import {
  contentParquet,
  TORCHTITAN,
  writeBlock,
  writeChats,
  writeLesson,
  writeLlama,
  writePairs,
  writeSettings,
  writeTexts,
  writeVideos,
} from './files';

/** What a reader has before the blocks of a page run. */
export interface Page {
  /** Writes the reader's files. */
  readonly files?: (folder: string) => void;
  /** The reader's cells before the block that has this text. */
  readonly before?: Readonly<Record<string, readonly string[]>>;
  /** The test that checks the block that has this text, in place of a test of this folder. */
  readonly checkedBy?: Readonly<Record<string, string>>;
  /** Cells need ranks of PyTorch: cells.torch.test.ts runs them. */
  readonly torch?: boolean;
}

const JOB = "import * as sl from 'shardlab'; const job = await sl.launch({ ranks: 2 });";
/** Rank 0 waits for rank 1. */
const HANG = `const waits = job.on('all').run(async ({ rank, dist, tf }) => {
  if (rank === 0) dist.allReduce(tf.ones([1]));
  else await new Promise((resolve) => setTimeout(resolve, 60_000));
});
waits.catch(() => undefined);`;

/** What the pages need whose blocks do not run by themselves. */
export const PAGES: Readonly<Record<string, Page>> = {
  'README.md': { checkedBy: { 'sl.launch': 'test/kernel/readme.slow.test.ts' } },
  'docs/architecture.md': {
    checkedBy: {
      'notebook ──▶ Jupyter': 'test/project/architecture.test.ts',
      'this page; words.md': 'test/project/architecture.test.ts',
    },
  },
  'docs/explanation/model-parallelism.md': {
    before: {
      'tensorModelParallelSize: 2': [JOB],
      'parallelizeModule(net': [
        `%%ranks
class Block extends nn.Module { fc1 = new nn.Linear(8, 16); fc2 = new nn.Linear(16, 8); forward(x: tf.Tensor) { return this.fc2(this.fc1(x)); } }
class Net extends nn.Module { blocks = new nn.ModuleList([new Block(), new Block()]); forward(x: tf.Tensor) { return x; } }
const net = new Net();`,
      ],
      'context.cut(wholeX)': [
        `%%ranks
const wholeX = tf.ones([1, 8, 4]); const T = 8; const ownLoss = tf.scalar(1);
const [q, k, v] = [0, 1, 2].map(() => tf.ones([1, 4, 2, 4])) as [tf.Tensor4D, tf.Tensor4D, tf.Tensor4D];`,
      ],
      'balanceExperts(model': [
        `%%ranks
const build = () => nn.moe({ layers: 2, dim: 64, heads: 4, vocab: 256, seq: 64, experts: 8, router: 'topk', topK: 2 });
const parallel = initializeModelParallel({ expertModelParallelSize: 2 });
const model = build();
applyExpertParallel(model, parallel);
const optimizer = optim.adamW(DDP(model));
const ids = tf.ones([1, 64], 'int32');
model(ids, ids.flatten()).backward(); optimizer.step();`,
      ],
      'schedule.step(ids': ["%%ranks\nconst ids = tf.ones([4, 12], 'int32'); const target = ids.flatten();"],
    },
  },
  'docs/how-to/clusters.md': {
    torch: true,
    before: {
      'await run.export(': ['if (parity.first !== null) throw new Error(JSON.stringify(parity.first));'],
    },
    files: (folder) => {
      writeTexts(folder, 'my.txt');
      writeBlock(folder, 'net.py', 'docs/how-to/clusters.md', 'class Net(nn.Module)');
    },
    checkedBy: {
      './launch.sh 0': 'test/programs/export/clusters-page.test.ts',
      'exec torchrun': 'test/programs/export/clusters-page.test.ts',
      'srun torchrun': 'test/programs/export/clusters-page.test.ts',
      'class Net(nn.Module)': 'test/pages/cells.torch.test.ts',
    },
  },
  'docs/how-to/data.md': {
    files: (folder) => {
      writeTexts(folder, 'my.txt', 'texts/a.txt', 'texts/b.txt');
      copyFileSync(testData('files', 'tokenizer.json'), join(folder, 'tokenizer.json'));
      for (const name of ['a', 'b', 'c']) writeFileSync(join(folder, `${name}.parquet`), contentParquet());
    },
    before: {
      'await dataLoader': [
        `%%ranks
const model = nn.gpt({ layers: 1, dim: 8, heads: 1, vocab: 512, seq: 32 });
const optimizer = optim.adamW(DDP(model));`,
      ],
    },
  },
  'docs/how-to/export.md': {
    torch: true,
    files: (folder) => {
      writeFileSync(join(folder, 'train.toml'), TORCHTITAN);
      writeFileSync(join(folder, 'Wan2.2-T2V-A14B_0.sh'), documentScript());
      copyFileSync(join(DOCUMENTS, 'accelerate_4x8.yaml'), join(folder, 'accelerate_0.yaml'));
      writeBlock(folder, 'two_inputs.py', 'docs/how-to/export.md', 'class Score(nn.Module)');
    },
    checkedBy: { 'class Score(nn.Module)': 'test/pages/cells.torch.test.ts' },
  },
  'docs/how-to/faults.md': {
    before: { 'const wrong': ["import * as sl from 'shardlab'; const job = await sl.launch({ ranks: 4 });"] },
  },
  'docs/how-to/hang.md': { before: { 'job.why()': [JOB, HANG] } },
  'docs/how-to/lora.md': { files: writeLlama },
  'docs/tutorial/lesson.md': { files: writeLesson },
  'docs/zh/lesson.md': { files: writeLesson },
  'docs/how-to/own-loop.md': { before: { 'const model = nn.gpt': [JOB] } },
  'docs/how-to/own-model.md': { files: (folder) => writeTexts(folder, 'my.txt') },
  'docs/how-to/own-videos.md': { files: writeVideos },
  'docs/how-to/read-settings.md': { files: writeSettings },
  'docs/how-to/dpo.md': {
    files: (folder) => {
      writeLlama(folder);
      writePairs(folder, 'pairs.jsonl');
    },
  },
  'docs/how-to/sft.md': {
    files: (folder) => {
      writeLlama(folder);
      writeChats(folder, 'chats.jsonl', 'more.jsonl');
    },
  },
  'docs/pictures/README.md': { checkedBy: { '<picture>': 'test/project/pictures.test.ts' } },
  'docs/reference/commands.md': { checkedBy: { 'Usage: shardlab': 'test/project/reference-pages.test.ts' } },
};

/**
 * How a block is tested: a cell runs in a kernel, a cell of PyTorch's ranks too, a command of shardlab runs in a shell, and of a
 * command of npm the script must exist. Other blocks say why they do not run, or another test checks them.
 */
export type Fate = 'cell' | 'torch cell' | 'command' | 'npm' | 'not run' | 'checked elsewhere' | 'forgotten';

/** How a block is tested; 'forgotten' if no test runs it and it does not say why. */
export function fateOf(block: Block): Fate {
  const { page, language, code } = block;
  if (reasonOf(block) !== undefined) return 'not run';
  if (Object.keys(PAGES[page]?.checkedBy ?? {}).some((text) => code.includes(text)))
    return 'checked elsewhere';
  if (language === 'ts' || code.startsWith('%%ranks --python'))
    return PAGES[page]?.torch ? 'torch cell' : 'cell';
  if (language !== 'sh' && language !== 'bash') return 'forgotten';
  if (/^(\w+=\S+ )*(npm|npx biome|git clone) /.test(code)) return 'npm';
  return /\bnpx shardlab |^shardlab /m.test(code) ? 'command' : 'forgotten';
}
