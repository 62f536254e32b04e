import { rowsOf } from './column-rows';
import type { StatedRow } from './published-row';
import trainings from './whole-trainings.json';

interface Options {
  readonly dispatcher?: string;
  readonly overlapExperts?: boolean;
  readonly cudaGraph?: string;
  readonly recompute?: string;
  readonly trainedShare?: number;
  readonly offload?: object;
  readonly cause?: string;
}

/** A row of whole-trainings.json. */
interface Row {
  readonly source: string;
  readonly model: string;
  readonly gpu: string;
  readonly gpus: number;
  readonly precision: string;
  readonly 'stack and strategy': string;
  readonly tp: number;
  readonly pp: number;
  readonly cp: number;
  readonly virtualStages: number;
  readonly ep: number;
  readonly seq: number;
  readonly micro: number;
  readonly global: number;
  readonly options: Options;
  readonly measured: number;
}

/** The starts of the rows' sources. */
export type TrainingSource = 'Megatron-Bridge' | 'InternEvo' | 'NeMo' | 'DeepSpeed';

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

/** What all rows of a source have in common; `settings` in sources.json has the reasons. */
const COMMON: Readonly<Record<TrainingSource, object>> = {
  'Megatron-Bridge': { attention: 'cudnn', compileLoss: true, fusedNorms: true, reduceDtype: 'bf16' },
  InternEvo: { attention: 'flash1', compileLoss: true, fusedNorms: true, reduceDtype: 'bf16', nicGbit: 50 },
  NeMo: { attention: 'cudnn', compileLoss: true, fusedNorms: true },
  DeepSpeed: { compileLoss: true, fusedNorms: true },
};

/** Returns the trainings of a source, with the settings of the release's own recipes. */
export function trainingRows(by: TrainingSource): readonly StatedRow[] {
  const causes: Readonly<Record<string, string>> = trainings.causes;
  // The file has these columns; a test plans each row.
  const rows = rowsOf(trainings) as unknown as readonly Row[];
  return rows
    .filter(({ source }) => source.startsWith(by))
    .map((row) => {
      const { source, model, precision, tp, pp, cp, ep, measured } = row;
      const { cause } = row.options;
      return {
        name: `${source}: ${model} in ${precision}, tp ${tp} pp ${pp} cp ${cp} ep ${ep}`,
        line: lineOf(row, by),
        stated: { [by === 'DeepSpeed' ? 'causalTflops' : 'tokensPerGpu']: measured },
        isFitted: isFitted(row),
        cause: cause === undefined ? undefined : causes[cause],
      };
    });
}

/** Whether the speed of offloaded updates was fitted on a row (`HOST_UPDATES` in predict-time.ts). */
function isFitted({ gpu, seq, options: { offload } }: Row): boolean {
  return offload !== undefined && gpu === 'H200-141G' && seq === 8192;
}

function lineOf(row: Row, by: TrainingSource): object {
  const { model, gpu, gpus, precision, tp, pp, cp, virtualStages, ep, seq, micro, global } = row;
  const { dispatcher, overlapExperts, cause: _cause, ...options } = row.options;
  const [stack = '', strategy = ''] = row['stack and strategy'].split(' ');
  const isRack = gpu.startsWith('GB'); // 72 GPUs share NVLink; the recipes use 64 of them.
  const kernel = by === 'DeepSpeed' ? { attention: gpu.startsWith('H') ? 'flash3' : 'cudnn' } : {};
  return {
    ...{ ...COMMON[by], ...kernel, ...options },
    ...(model === 'InternLM-7B' ? { model: INTERNLM } : { model, seq }),
    ...{ hardware: gpu, gpus, ...(isRack ? { gpusPerNode: 64 } : {}) },
    ...{ precision, virtualStages, schedule: virtualStages > 1 ? 'interleaved' : '1F1B' },
    parallel: {
      ...{ stack, strategy, tp, pp, cp, ep, sequenceParallel: tp > 1 },
      asyncTensorParallel: tp > 1 && by !== 'InternEvo',
      ...(dispatcher === undefined ? {} : { dispatcher }),
      ...(overlapExperts === undefined ? {} : { overlapExperts }),
    },
    batch: { micro, global },
  };
}
