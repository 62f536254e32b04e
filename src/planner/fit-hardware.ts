import { z } from 'zod';
import { median, ShardlabError } from '../core';
import { CALIBRATION } from './calibration';
import { boardsNamed, GPUS, type Gpu } from './hardware';
import type { HardwareCalibration } from './hardware-calibration';
import { OFFERED } from './memory/allocator';

const positive = z.number().positive();

/** What the PyTorch program of `shardlab doctor --calibrate` prints. */
const measuredSchema = z.object({
  device: z.enum(['cuda', 'cpu']),
  name: z.string(),
  torch: z.string(),
  memory_bytes: positive,
  gpus: z.int().positive(),
  gemm: z
    .array(z.object({ m: positive, n: positive, k: positive, dtype: z.string(), tflops: positive }))
    .min(1),
  memory: z.array(z.object({ op: z.string(), tb_s: positive })).min(1),
  /** The CPU's time for one small operation, µs. */
  launch_us: positive,
  all_reduce: z.array(z.object({ bytes: positive, seconds: positive, bus_gb_s: positive })),
});

export type MeasuredHardware = Readonly<z.output<typeof measuredSchema>>;

/** Figures that replace a GPU's published figures, and the measurements on which these figures were fitted. */
export interface FittedHardware extends HardwareCalibration {
  readonly measured: MeasuredHardware;
  readonly notes: readonly string[];
}

/** Checks the program's output. Throws: ENGINE if the output has another form. */
export function parseMeasured(input: unknown): MeasuredHardware {
  const parsed = measuredSchema.safeParse(input);
  if (parsed.success) return parsed.data;
  const wrong = parsed.error.issues.map(({ path }) => path.join('.')).join(', ');
  throw new ShardlabError('ENGINE', `the output of the measurement lacks ${wrong}; run it again`);
}

/**
 * Returns the figures with which the cost model predicts the measured times. In the model, matmuls reach a share of gemmTflops,
 * element-wise kernels reach a share of hbmTBps, and collectives within a node reach a share of linkGBps. These shares
 * (calibration.ts) do not change.
 */
export function fitHardware(measured: MeasuredHardware): FittedHardware {
  const { like, notes } = kindOf(measured);
  const [largest] = measured.all_reduce.toSorted((a, b) => b.bytes - a.bytes);
  const bus = largest?.bus_gb_s;
  return {
    like,
    gemmTflops: Math.max(...measured.gemm.map(({ tflops }) => tflops)),
    hbmTBps: median(measured.memory.map(({ tb_s }) => tb_s)) / CALIBRATION.memoryEfficiency,
    memoryGB: memoryOf(measured),
    ...(bus === undefined ? {} : { linkGBps: bus / CALIBRATION.linkEfficiency }),
    ...(measured.gpus > 1 && measured.device === 'cuda' ? { gpusPerNode: measured.gpus } : {}),
    measured,
    notes: [
      ...notes,
      ...(bus === undefined
        ? ['only one GPU was measured, so the link within a node is planned with its published bandwidth']
        : []),
    ],
  };
}

/** Returns the memory in a GPU's name (80 of '80G'), worked out from the bytes that CUDA offers. */
function memoryOf({ memory_bytes }: MeasuredHardware): number {
  return memory_bytes / 2 ** 30 / OFFERED;
}

/** Finds the nearest known kind of GPU, by name ('NVIDIA A100-SXM4-80GB') and memory. */
function kindOf(measured: MeasuredHardware) {
  const { device, name } = measured;
  const memory = memoryOf(measured);
  const known = Object.entries<Gpu>(GPUS);
  const family = boardsNamed(name);
  const [nearest] = [...(family.length > 0 ? family : known)].sort(
    ([, a], [, b]) => Math.abs(a.memoryGB - memory) - Math.abs(b.memoryGB - memory),
  );
  const like = device === 'cpu' ? 'A100-80G' : (nearest?.[0] ?? 'A100-80G');
  const note =
    device === 'cpu'
      ? `measured on a CPU: these figures only show how a calibration works, and say nothing about ${like}, under whose name they are stored`
      : `${name} is not a known kind of GPU; for figures that were not measured, those of ${like} are used`;
  return { like, notes: device === 'cuda' && family.length > 0 ? [] : [note] };
}
