import type { Command } from 'commander';
import { CATALOGUE, isBuilt, MODEL_NAMES, PLANNED_NAMES } from '../../config';
import { createTable } from '../../figures';
import { KNOWN_GPUS, modelOf, shapeOf } from '../../planner';
import type { Perform } from '../io';

/** `shardlab models`: lists the models that configs and plans know by name. */
export function declareModels(models: Command, perform: Perform): void {
  perform<object>(models, async (_, __, output) => {
    const rows = [...MODEL_NAMES, ...PLANNED_NAMES].map(modelRow);
    output.answer(rows, () => createTable(rows).toText(rows.length));
    return 0;
  });
}

/** `shardlab gpus`: lists the kinds of GPU that plans know by name. */
export function declareGpus(gpus: Command, perform: Perform): void {
  perform<object>(gpus, async (_, __, output) => {
    const rows = Object.values(KNOWN_GPUS).map((gpu) => ({
      name: gpu.name,
      memoryGB: gpu.memoryGB,
      tflops: gpu.tflops,
      gemmTflops: gpu.gemmTflops,
      hbmTBps: gpu.hbmTBps,
      linkGBps: gpu.linkGBps,
      nicGbit: gpu.nicGbit,
      powerW: gpu.powerW,
      usdPerHour: gpu.price?.usdPerHour ?? null,
      source: [gpu.sources.figures, gpu.sources.gemm, gpu.price?.source].filter(Boolean).join('; '),
    }));
    output.answer(rows, () => createTable(rows).toText(rows.length));
    return 0;
  });
}

function modelRow(name: string) {
  const { kind, layers, dim, heads, kvHeads, vocab, seq, params } = shapeOf(modelOf(name));
  const published = CATALOGUE[name];
  return {
    ...{ name, kind, params, layers, dim, heads, kvHeads, vocab, seq },
    use: isBuilt(name) ? 'runs and plans' : 'plans',
    source:
      published === undefined ? 'of this library' : `the configuration of ${published._name_or_path ?? name}`,
  };
}
