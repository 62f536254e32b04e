import { countSchema, parseOptions, pathSchema, type ShapeOf } from '../../config';
import { type Shown, shownAsText, withShown } from '../../core';
import {
  type Foreign,
  type Reading,
  type ReadOptions,
  readConfig as readForeignConfig,
  readingText,
} from '../../programs';

/** Another program's settings as settings of shardlab. Shown in a notebook as a table with one row per line. */
export type ConfigReading = Reading & Shown;

const OPTIONS = { cwd: pathSchema, world: countSchema } satisfies ShapeOf<ReadOptions>;

/**
 * Reads another program's settings (docs/reference/programs/index.md): a file, a launch script, or a command as a text or as words. In the
 * result, `config` is a config for `job.train`, and `lines` says what each line does here. `sl.plan` takes the whole result,
 * because only plans use some lines, such as compilation. Throws: CONFIG if no setting of a known program is found.
 * @example
 * const { config } = sl.readConfig('accelerate.yaml');
 * const run = await job.train({ ...config, model: 'tiny' });
 * sl.plan(sl.readConfig('accelerate.yaml'), 'H100-80G');
 * sl.readConfig('torchrun --nproc_per_node=8 train.py --learning_rate 2.5e-5');
 */
export function readConfig(settings: Foreign, options: ReadOptions = {}): ConfigReading {
  const reading = readForeignConfig(settings, parseOptions('readConfig(settings, { … })', options, OPTIONS));
  return withShown({ ...reading }, shownAsText(readingText(reading)));
}
