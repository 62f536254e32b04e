import { z } from 'zod';
import { ConfigError } from '../core/errors';
import { GPUS } from './hardware';
import { gpuSchema } from './request';

const { like, gemmTflops, hbmTBps, memoryGB, linkGBps, gpusPerNode } = gpuSchema.shape;

/** The result of `shardlab doctor --calibrate`: the known kind nearest to the GPU, and the GPU's measured figures. */
const calibrationSchema = z.object({ like, gemmTflops, hbmTBps, memoryGB, linkGBps, gpusPerNode });

/** Figures of the user's GPU, measured by `shardlab doctor --calibrate`: TFLOP/s, TB/s, GiB (`memoryGB`), GB/s. */
export type HardwareCalibration = Readonly<z.output<typeof calibrationSchema>>;

/** Checks that an input is a calibration. `from` is only for messages. Throws: CONFIG if the input is not a calibration. */
export function parseCalibration(input: unknown, from = 'calibration'): HardwareCalibration {
  const parsed = calibrationSchema.safeParse(input);
  if (!parsed.success) {
    const issues = parsed.error.issues.map(
      ({ path, message }) => `${path.join('.') || 'content'}: ${message}`,
    );
    throw new ConfigError(
      `${from} is not a calibration (${issues.join('; ')}); \`shardlab doctor --calibrate --out FILE\` writes one`,
    );
  }
  if (parsed.data.like in GPUS) return parsed.data;
  throw new ConfigError(
    `${from}: like: '${parsed.data.like}' is not known. Known: ${Object.keys(GPUS).join(', ')}`,
  );
}

/**
 * Returns a request whose hardware has the measured figures; figures that the request already has are not replaced.
 * Throws: CONFIG if the request names another kind of GPU than the calibration.
 */
export function withCalibration<Request extends object>(
  request: Request,
  calibration: HardwareCalibration,
): Request & { readonly hardware: object } {
  const asked = 'hardware' in request ? request.hardware : undefined;
  const said = typeof asked === 'object' && asked !== null ? asked : { like: asked ?? calibration.like };
  const like = 'like' in said ? said.like : undefined;
  if (like !== calibration.like) {
    throw new ConfigError(
      `the calibration is of ${calibration.like}, but the request's hardware is ${String(like)}; ` +
        `plan for ${calibration.like}, or calibrate on ${String(like)}`,
    );
  }
  return { ...request, hardware: { ...calibration, ...said } };
}
