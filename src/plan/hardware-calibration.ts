import { z } from 'zod';
import { ConfigError } from '../core/errors';
import { GPUS } from './hardware';
import { gpuSchema } from './request';

const { like, gemmTflops, hbmTBps, memoryGB, linkGBps, gpusPerNode } = gpuSchema.shape;

/** What `shardlab doctor --calibrate` measured: the known kind that a GPU is nearest to, with its real figures. */
const calibrationSchema = z.object({ like, gemmTflops, hbmTBps, memoryGB, linkGBps, gpusPerNode });

/** Figures of one's own GPU, as `shardlab doctor --calibrate` measures them: TFLOP/s, TB/s, GB, GB/s. */
export type HardwareCalibration = Readonly<z.output<typeof calibrationSchema>>;

/** Throws: CONFIG naming what is not a calibration. `from` is only for messages. */
export function parseCalibration(input: unknown, from = 'calibration'): HardwareCalibration {
  const parsed = calibrationSchema.safeParse(input);
  if (!parsed.success) {
    const issues = parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'it'}: ${message}`);
    throw new ConfigError(
      `${from} is no calibration (${issues.join('; ')}); \`shardlab doctor --calibrate --out FILE\` writes one`,
    );
  }
  if (parsed.data.like in GPUS) return parsed.data;
  throw new ConfigError(
    `${from}: like: '${parsed.data.like}' is not known. Known: ${Object.keys(GPUS).join(', ')}`,
  );
}

/**
 * A request whose hardware has the measured figures; what the request itself says of a figure stays. Throws: CONFIG where
 * the request names another kind of GPU than was measured.
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
        `plan for ${calibration.like}, or calibrate on the other`,
    );
  }
  return { ...request, hardware: { ...calibration, ...said } };
}
