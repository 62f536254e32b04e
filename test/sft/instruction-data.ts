import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { type OwnData, ownData } from '../../src/config/settings/data';
import { parseTrainConfig, type TrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import { prepareData } from '../../src/training/data/prepare/prepare-data';
import type { PreparedInstructions } from '../../src/training/data/prepared';
import { testData } from '../support/paths';

/** Conversations of our own, and a tokenizer with special tokens and a chat template. */
export const CHATS = testData('instructions/chats.jsonl');
export const TOKENIZER = testData('instructions/tokenizer');

/** A Llama for the tokenizer's tokens. */
export const LLAMA = {
  kind: 'llama',
  layers: 2,
  dim: 16,
  heads: 4,
  kvHeads: 2,
  ffn: 24,
  vocab: 402,
  seq: 64,
} as const;

/** What transformers and PEFT made of the conversations. */
export interface SftReference {
  readonly settings: {
    readonly seq: number;
    readonly seed: number;
    readonly batch: number;
    readonly accumulation: number;
    readonly steps: number;
    readonly lr: number;
  };
  readonly examples: readonly { readonly ids: readonly number[]; readonly answers: readonly number[] }[];
  readonly training: {
    readonly base: readonly string[];
    readonly trained: readonly string[];
    readonly losses: readonly number[];
    readonly norms: readonly number[];
  };
}

export function sftReference(): SftReference {
  return JSON.parse(readFileSync(testData('sft_reference.json'), 'utf8')) as SftReference;
}

/** Prepares the data of configs in a folder that is removed after the file's tests. */
export function preparer(): {
  readonly folder: string;
  prepare(config: TrainConfig): Promise<PreparedInstructions>;
} {
  const folder = mkdtempSync(join(tmpdir(), 'shardlab-sft-'));
  after(() => rmSync(folder, { recursive: true, force: true }));
  let numFiles = 0;
  return {
    folder,
    async prepare({ data, seed, model }) {
      const own = ownData(data) as OwnData;
      const seq = typeof model === 'object' && 'seq' in model ? model.seq : undefined;
      const prepared = await prepareData(
        { ...own, seq },
        {
          baseDir: folder,
          seed,
          fileFor: (name) => join(folder, `${++numFiles}-${name}`),
          progress: () => undefined,
        },
      );
      if (prepared.kind !== 'instructions') throw new Error(`prepared ${prepared.kind}`);
      return prepared;
    },
  };
}

/** A config on the conversations. */
export function sftConfig(more: TrainConfigInput = {}, data: object = {}): TrainConfig {
  return parseTrainConfig({
    model: LLAMA,
    data: { instructions: CHATS, tokenizer: TOKENIZER, ...data },
    ...more,
  });
}
