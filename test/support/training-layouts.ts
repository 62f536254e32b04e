import { readFileSync } from 'node:fs';
import type { Layout } from '../../src/planner/layout';
import { layoutOfLine } from './batch-lines';
import { testData } from './paths';

interface Options {
  readonly dispatcher?: string;
  readonly overlapExperts?: boolean;
  readonly cudaGraph?: string;
  readonly recompute?: string;
  readonly trainedShare?: number;
  readonly offload?: object;
  readonly cause?: string;
}

/** The columns of training-measured.json. */
type Row = readonly [
  source: string,
  model: string,
  gpu: string,
  gpus: number,
  precision: string,
  stackAndStrategy: string,
  tp: number,
  pp: number,
  cp: number,
  virtualStages: number,
  ep: number,
  seq: number,
  micro: number,
  global: number,
  options: Options,
  measured: number,
];

/** A whole training that its source published. */
export interface MeasuredTraining {
  readonly id: string;
  readonly layout: Layout;
  readonly seconds: number;
  /** Why the prediction is far from it; undefined: it is near. */
  readonly cause: string | undefined;
}

/** InternLM-7B. Source: InternLM/InternEvo, configs/7B_sft.py. */
const INTERNLM = {
  kind: 'llama',
  layers: 32,
  dim: 4096,
  heads: 32,
  ffn: 11_008,
  vocab: 103_168,
  seq: 2048,
  bias: 'attention',
} as const;

/** What all rows of a source have in common; a source is the start of a row's name. */
const COMMON: readonly (readonly [source: string, request: object])[] = [
  // Its recipes reduce in bf16, and use Transformer Engine's fused loss and norms, and tensor parallelism with overlap.
  ['Megatron-Bridge', { attention: 'cudnn', compileLoss: true, fusedNorms: true, reduceDtype: 'bf16' }],
  // The page names no GPU; its fp8 and its date mean H100.
  ['NeMo', { attention: 'cudnn', compileLoss: true, fusedNorms: true }],
  // Its page's cluster has 8 A100 and 4 cards of 100 Gbit/s per node. It uses FlashAttention 1 and its fused loss and norms.
  [
    'InternEvo',
    { attention: 'flash1', compileLoss: true, fusedNorms: true, reduceDtype: 'bf16', nicGbit: 50 },
  ],
  // Liger's fused loss and norms; FlashAttention 3 on H200. There is no published curve of FlashAttention 4, which ran on B200.
  ['DeepSpeed', { compileLoss: true, fusedNorms: true }],
];

interface Table {
  readonly rows: readonly Row[];
  readonly causes: Readonly<Record<string, string>>;
}

function table(): Table {
  return JSON.parse(readFileSync(testData('training-measured.json'), 'utf8')) as Table; // the file of this repository
}

/** Returns the trainings of Megatron-Bridge, NeMo, InternEvo and DeepSpeed that a request can express. */
export function trainingLayouts(): readonly MeasuredTraining[] {
  const { rows, causes } = table();
  return rows.map((row) => {
    const [source, model, gpu, gpus, precision, , tp, pp, cp, , ep, seq, micro, global, { cause }] = row;
    const layout = layoutOfLine(requestOf(row));
    const degrees = `tp ${tp} pp ${pp} cp ${cp} ep ${ep}`;
    return {
      id: `${source}: ${model} in ${precision} on ${gpus} ${gpu}, ${degrees}, seq ${seq}, batch ${global} by ${micro}`,
      layout,
      seconds: secondsOf(row, layout),
      cause: cause === undefined ? undefined : causes[cause],
    };
  });
}

function requestOf(row: Row): object {
  const [source, model, gpu, gpus, precision, form, tp, pp, cp, virtualStages, ep, seq, micro, global] = row;
  const { dispatcher, overlapExperts, cause: _cause, ...options } = row[14];
  const [stack = '', strategy = ''] = form.split(' ');
  const common = COMMON.find(([name]) => source.startsWith(name))?.[1] ?? {};
  const isRack = gpu.startsWith('GB'); // 72 GPUs share NVLink; the recipes use 64 of them.
  const kernel = source === 'DeepSpeed' ? { attention: gpu.startsWith('H') ? 'flash3' : 'cudnn' } : {};
  return {
    ...{ ...common, ...kernel, ...options },
    ...(model === 'InternLM-7B' ? { model: INTERNLM } : { model, seq }),
    ...{ hardware: gpu, gpus, ...(isRack ? { gpusPerNode: 64 } : {}) },
    ...{ precision, virtualStages, schedule: virtualStages > 1 ? 'interleaved' : '1F1B' },
    parallel: {
      ...{ stack, strategy, tp, pp, cp, ep, sequenceParallel: tp > 1 },
      asyncTensorParallel: tp > 1 && source !== 'InternEvo',
      ...(dispatcher === undefined ? {} : { dispatcher }),
      ...(overlapExperts === undefined ? {} : { overlapExperts }),
    },
    batch: { micro, global },
  };
}

function secondsOf(row: Row, { model, globalBatch, gpus }: Layout): number {
  const [source] = row;
  const measured = row[15];
  if (source !== 'DeepSpeed') return (globalBatch * model.seq) / (measured * gpus);
  // Its TFLOP/s count the causal half of attention, and no embedding.
  const { layers, dim, seq, vocab, params } = model;
  const flops = 6 * seq * (params - vocab * dim) + 6 * layers * seq ** 2 * dim;
  return (flops * globalBatch) / gpus / (measured * 1e12);
}
