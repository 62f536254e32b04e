import { z } from 'zod';
import { wordsOfIssues } from '../config';
import { ConfigError } from '../core';
import { GPUS } from './hardware';
import { gpuSchema, type Place } from './place';

const { like, gemmTflops, hbmTBps, memoryGB, linkGBps, gpusPerNode } = gpuSchema.shape;

/** The result of `shardlab doctor --calibrate`: the known kind nearest to the GPU, and the GPU's measured figures. */
const calibrationSchema = z.object({ like, gemmTflops, hbmTBps, memoryGB, linkGBps, gpusPerNode });

/** Figures of the user's GPU, measured by `shardlab doctor --calibrate`: TFLOP/s, TB/s, GiB (`memoryGB`), GB/s. */
export type HardwareCalibration = Readonly<z.output<typeof calibrationSchema>>;

/** Checks that an input is a calibration. `from` is only for messages. Throws: CONFIG if the input is not a calibration. */
export function parseCalibration(input: unknown, from = 'calibration'): HardwareCalibration {
  const parsed = calibrationSchema.safeParse(input);
  if (!parsed.success) {
    throw new ConfigError(
      `${from} is not a calibration (${wordsOfIssues(parsed.error.issues)}); \`shardlab doctor --calibrate --out FILE\` writes one`,
    );
  }
  if (parsed.data.like in GPUS) return parsed.data;
  throw new ConfigError(
    `${from}: like: '${parsed.data.like}' is not known. Known: ${Object.keys(GPUS).join(', ')}`,
  );
}

/**
 * Returns a place whose hardware has the measured figures; figures that the place already has are not replaced.
 * Throws: CONFIG if the place names another kind of GPU than the calibration.
 */
export function withCalibration({ on, hardware, ...place }: Place, calibration: HardwareCalibration): Place {
  const namedHardware = hardware ?? on;
  const said =
    typeof namedHardware === 'object' && namedHardware !== null
      ? namedHardware
      : { like: namedHardware ?? calibration.like };
  if (said.like !== calibration.like) {
    throw new ConfigError(
      `the calibration is of ${calibration.like}, but the plan's hardware is ${String(said.like)}; ` +
        `plan for ${calibration.like}, or calibrate on ${String(said.like)}`,
    );
  }
  return { ...place, on: { ...calibration, ...said } };
}
