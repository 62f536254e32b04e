import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { toPng } from '../../src/figures/static/png';
import { ROOT } from '../project/sources';
import { testData } from '../support/paths';
import { readSafetensors } from '../support/safetensors';
import { allBlocks } from './blocks';

// The files that a reader of the pages has.

const TEXT = 'To be, or not to be, that is the question. '.repeat(200);
/** The number of tokens of the tokenizer of the test data. */
const VOCAB = 402;
/** The vocabulary and the length of the Llama of the test data. */
const STORED = { vocab: 96, length: 16 };

/** Settings of TorchTitan. */
export const TORCHTITAN = `[model]
name = "llama3"
flavor = "8B"

[training]
local_batch_size = 1
seq_len = 8192
steps = 1000

[parallelism]
data_parallel_shard_degree = 8
`;

/** A launch script with two launches, the second one on line 12. */
const LAUNCH_SCRIPT = `#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gres=gpu:8
export NCCL_DEBUG=INFO

# The first launch trains a small model.
torchrun --nproc_per_node=2 \\
  train.py --per_device_train_batch_size 1

# The second one trains with DeepSpeed's settings.

torchrun --nproc_per_node=8 train.py --deepspeed ds_config.json
`;

/** Files of text with the settings of other programs. */
const SETTINGS: Readonly<Record<string, string>> = {
  'accelerate.yaml': 'distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_version: 2\n',
  'ds_config.json': '{"train_batch_size": 64, "zero_optimization": {"stage": 2}}',
  'train.sh': LAUNCH_SCRIPT,
  'train.py': 'from torch.distributed.fsdp import fully_shard\n\nfully_shard(model)\n',
};

/** Writes files with the settings of other programs. */
export function writeSettings(folder: string): void {
  for (const [name, text] of Object.entries(SETTINGS)) writeFileSync(join(folder, name), text);
}

/** Writes files of text. */
export function writeTexts(folder: string, ...names: readonly string[]): void {
  for (const name of names) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), TEXT);
  }
}

/** Writes files of conversations. */
export function writeChats(folder: string, ...names: readonly string[]): void {
  const records = '{"query": "To be?", "response": "Or not to be."}\n'.repeat(40);
  for (const name of names) writeFileSync(join(folder, name), records);
}

/** Writes the folder `videos`: four videos as folders of frames, and their list. */
export function writeVideos(folder: string): void {
  const rows = ['red', 'green', 'blue', 'white'].map((color) => {
    mkdirSync(join(folder, 'videos', color), { recursive: true });
    for (let frame = 0; frame < 4; frame++) {
      const ball = `<circle cx="${8 + 5 * frame}" cy="10" r="6" fill="${color}"/>`;
      const svg = `<svg xmlns="http://www.w3.org/2000/svg" width="32" height="20"><rect width="32" height="20"/>${ball}</svg>`;
      writeFileSync(join(folder, 'videos', color, `${frame}.png`), toPng(svg));
    }
    return `${color},a ${color} ball rolls`;
  });
  writeFileSync(join(folder, 'videos', 'metadata.csv'), ['video,prompt', ...rows].join('\n'));
}

/** Writes 40 pairs of answers. */
export function writePairs(folder: string, name: string): void {
  const record = '{"prompt": "To be?", "chosen": "Or not to be.", "rejected": "Yes."}\n';
  writeFileSync(join(folder, name), record.repeat(40));
}

/** Writes the folder `my-llama`: a small Llama in the format of transformers, with a tokenizer. */
export function writeLlama(folder: string): void {
  const [from, to] = [testData('pretrained', 'llama'), join(folder, 'my-llama')];
  cpSync(testData('instructions', 'tokenizer'), to, { recursive: true });
  const config = readFileSync(join(from, 'config.json'), 'utf8')
    .replace(`"vocab_size": ${STORED.vocab}`, `"vocab_size": ${VOCAB}`)
    .replace(`"max_position_embeddings": ${STORED.length}`, '"max_position_embeddings": 512');
  writeFileSync(join(to, 'config.json'), config);
  const header: Record<string, unknown> = {};
  let numElements = 0;
  for (const [name, { shape: stored }] of readSafetensors(join(from, 'model.safetensors'))) {
    const shape = stored.map((extent) => (extent === STORED.vocab ? VOCAB : extent));
    const start = numElements;
    numElements += shape.reduce((count, extent) => count * extent, 1);
    header[name] = { dtype: 'F32', shape, data_offsets: [start * 4, numElements * 4] };
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  const values = Float32Array.from({ length: numElements }, (_, i) => Math.sin(i) / 10);
  writeFileSync(join(to, 'model.safetensors'), Buffer.concat([length, text, Buffer.from(values.buffer)]));
}

/** The Parquet file of the test data with its column of texts under the name `content`, which only the footer has. */
export function contentParquet(): Buffer {
  const bytes = readFileSync(testData('files', 'rows-gzip.parquet'));
  const end = bytes.length - 8;
  const start = end - bytes.readUInt32LE(end);
  const footer = bytes.toString('latin1', start, end).replaceAll('\x04text', '\x07content');
  const tail = Buffer.from(`${footer}????PAR1`, 'latin1');
  tail.writeUInt32LE(footer.length, footer.length);
  return Buffer.concat([bytes.subarray(0, start), tail]);
}

/** Writes the block of a page that has this text. Throws: an Error if no block has it. */
export function writeBlock(folder: string, name: string, page: string, text: string): void {
  const block = allBlocks().find((each) => each.page === page && each.code.includes(text));
  if (block === undefined) throw new Error(`${page} has no block with ${text}`);
  writeFileSync(join(folder, name), block.code);
}

/** The notebooks of the lesson, as `shardlab lab` copies them. */
export function writeLesson(folder: string): void {
  for (const name of ['00-quickstart', '01-zero-memory', '09-debugging'])
    for (const file of [`${name}.ipynb`, `${name}.zh.ipynb`])
      cpSync(join(ROOT, 'notebooks', file), join(folder, file));
}
