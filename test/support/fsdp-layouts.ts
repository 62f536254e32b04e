import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { MeasuredLayout } from '../../src/planner/measured/judged-runs';
import { layoutOfLine } from './batch-lines';
import { testData } from './paths';

type Row = Readonly<Record<string, string>>;

/**
 * Rows of a CSV file without quotes. A row is held out if the first byte of the SHA-256 of its line is odd: a rule that was set
 * before any error was looked at. The constants of the planner were not fitted on these files at all; which attention kernel
 * ran was decided on the other half.
 */
function rowsOf(file: string): readonly { readonly row: Row; readonly heldOut: boolean }[] {
  const [header = '', ...lines] = readFileSync(testData(file), 'utf8').trim().split('\n');
  const columns = header.split(',');
  return lines.map((line) => {
    const values = line.split(',');
    const first = createHash('sha256').update(line).digest()[0] ?? 0;
    return {
      row: Object.fromEntries(columns.map((name, i) => [name, values[i] ?? ''])),
      heldOut: first % 2 === 1,
    };
  });
}

/** Layers, dim and heads of MPT's sizes. Source: mosaicml/llm-foundry, scripts/train/yamls/pretrain. */
const MPT: Readonly<Record<string, readonly [layers: number, dim: number, heads: number]>> = {
  '125m': [12, 768, 12],
  '350m': [24, 1024, 16],
  '760m': [24, 1536, 12],
  '1b': [24, 2048, 16],
  '3b': [32, 2560, 20],
  '7b': [32, 4096, 32],
  '13b': [40, 5120, 40],
  '30b': [48, 7168, 56],
  '70b': [80, 8192, 64],
};

/**
 * 78 trainings of MPT with PyTorch's FSDP of 2023 on A100-40G: bf16 parameters and reductions (mixed_precision PURE), full
 * recompute or none, no compiler, attn_impl triton, which is the kernel of FlashAttention 1 (flash_attn_triton.py of that
 * release). Source: mosaicml/llm-foundry, scripts/train/benchmarking (README.md, submit_benchmarks.py).
 */
export function mptLayouts(): MeasuredLayout[] {
  return rowsOf('mpt_a100_40g.csv').map(({ row, heldOut }) => mptLayout(row, heldOut));
}

/**
 * 138 newer trainings of MPT by the same scripts, on A100-80G and H100-80G (README.md of January 2024, commit 5e85bd6; Apache-2.0).
 * Mode DEFAULT reduces gradients in float32. Transformer Engine's fp8 gathers parameters in bf16.
 */
export function newerMptLayouts(): MeasuredLayout[] {
  return rowsOf('mpt_a100_80g_h100.csv').map(({ row, heldOut }) => mptLayout(row, heldOut));
}

const MPT_GPUS: Readonly<Record<string, object>> = {
  a100_40gb: { hardware: 'A100-40G', nicGbit: 200 },
  a100_80gb: { hardware: 'A100-80G', nicGbit: 200 },
  h100_80gb: { hardware: 'H100-80G', nicGbit: 400 },
};

function mptLayout(row: Row, heldOut: boolean): MeasuredLayout {
  const [layers, dim, heads] = MPT[row.Model ?? ''] ?? [];
  const [seq, gpus, global, micro, tokens] = numbers(row, [
    'SeqLen (T)',
    '# GPUs',
    'GlobalBatchSize',
    'MicroBatchSize',
    'Throughput (T/s)',
  ]);
  const layout = layoutOfLine({
    model: { kind: 'gpt', layers, dim, heads, vocab: 50_368, seq },
    ...MPT_GPUS[row.GPU ?? ''],
    gpus,
    precision: row.Precision?.replace('amp_', ''),
    reduceDtype: row['MP Mode'] === 'DEFAULT' ? 'fp32' : 'bf16',
    attention: 'flash1',
    parallel: { strategy: row['Sharding Strategy'], stack: 'fsdp2', fp8AllGather: false },
    batch: { global, micro },
    recompute: row['Activation Checkpointing'] === 'True' ? 'full' : 'none',
    earlyStop: row.GPU !== 'a100_40gb',
  });
  return { layout, seconds: ((global ?? 0) * (seq ?? 0)) / (tokens ?? 0), heldOut };
}

const RECOMPUTED: Readonly<Record<string, object>> = {
  none: { recompute: 'none' },
  full: { recompute: 'full' },
  'selective-op': { recompute: 'selective' },
  'selective-every-2nd-layer': { recompute: 'full', recomputeEveryNth: 2 },
};

/**
 * 8 trainings of Llama with FSDP2 and torch.compile on 64 A100-80G. The page states no power limit. Meta's production cluster
 * caps A100 at 350 W, its research cluster at 400 W; both have 200 Gbit/s per GPU (Touvron et al. 2023, arXiv 2307.09288,
 * section 2.2.1). Assumed: TorchTitan's runs used the production cluster. Source: pytorch/torchtitan, docs/performance.md,
 * April 2024.
 */
export function torchtitanLayouts(): MeasuredLayout[] {
  return rowsOf('torchtitan_fsdp2_a100.csv').map(({ row, heldOut }) => {
    const [layers, dim, heads, kvHeads, ffn, vocab, seq, gpus, micro, tokens = 0] = numbers(row, [
      ...['layers', 'dim', 'heads', 'kv_heads', 'ffn', 'vocab', 'seq_len', 'gpus', 'local_batch'],
      'tokens_per_s_per_gpu',
    ]);
    const layout = layoutOfLine({
      model: { kind: 'llama', layers, dim, heads, kvHeads, ffn, vocab, seq },
      ...{
        hardware: { like: 'A100-80G', powerW: 350 },
        gpus,
        nicGbit: 200,
        precision: 'bf16',
        compile: true,
      },
      parallel: { strategy: 'FULL_SHARD', stack: 'fsdp2' },
      batch: { micro },
      ...RECOMPUTED[row.activation_checkpointing ?? ''],
    });
    return { layout, seconds: (layout.microBatch * layout.model.seq) / tokens, heldOut };
  });
}

function numbers(row: Row, names: readonly string[]): number[] {
  return names.map((name) => Number(row[name]));
}
