import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type Command, Option } from 'commander';
import {
  configNamed,
  dataRanksOf,
  PRESETS,
  parseTrainConfig,
  type TrainConfigInput,
  withSettings,
} from '../../config';
import { ConfigError } from '../../core';
import { planBundle, targets, writeBundle } from '../../programs';
import { JobData } from '../../session';
import { setOption, wholeNumber } from '../arguments';
import type { Io, Perform } from '../io';
import { foreignReading } from '../read/foreign';

interface ExportCommandOptions {
  readonly to: string;
  readonly out: string;
  readonly machines?: number;
  readonly gpusPerMachine?: number;
  readonly steps?: number;
  readonly init?: string;
  readonly set: readonly string[];
}

/** `shardlab export CONFIG --to NAME --out DIR`: writes a folder with which PyTorch trains the config elsewhere. */
export function declareExport(command: Command, perform: Perform, io: Io): void {
  command
    .argument(
      '<config...>',
      `a YAML or JSON file, a preset (${Object.keys(PRESETS).join(', ')}), a model's name, a file of another program (shardlab read), or, after --, a command that launches a training`,
    )
    .addOption(targetOption().makeOptionMandatory())
    .requiredOption('--out <folder>', 'a new or empty folder')
    .option(
      '--machines <n>',
      "number of machines (default: 1, or as another program's settings say)",
      wholeNumber(1),
    )
    .option(
      '--gpus-per-machine <m>',
      "number of GPUs per machine; each is a rank (default: 8, or as another program's settings say)",
      wholeNumber(1),
    )
    .option(
      '--steps <k>',
      "number of steps whose batches are stored (default: the config's steps, but at most 256 MiB of batches)",
      wholeNumber(1),
    )
    .option('--init <file>', 'the parameters (safetensors; default: initial values from the seed)')
    .addOption(setOption());
  perform<ExportCommandOptions>(command, async (words, options, output) => {
    const reading = foreignReading(words, { io, output });
    const named = reading === null ? ownConfig(words, io.cwd) : reading.config;
    const config = parseTrainConfig(withSettings(named, options.set));
    const { to, steps } = options;
    const machines = options.machines ?? reading?.machines ?? 1;
    const gpusPerMachine = options.gpusPerMachine ?? (reading?.world ?? 8 * machines) / machines;
    const out = options.out && resolve(io.cwd, options.out);
    const hasWeights = options.init !== undefined;
    const bundle = planBundle(
      config,
      { to, out, machines, gpusPerMachine, steps },
      {
        hasWeights,
        ...(reading !== null && { lines: reading.lines }),
      },
    );
    const folder = mkdtempSync(join(tmpdir(), 'shardlab-export-'));
    try {
      const data = new JobData({ baseDir: io.cwd, folder });
      const isOwn = bundle.target.data === 'own';
      const ranks = dataRanksOf(config, machines * gpusPerMachine);
      const prepared = isOwn ? undefined : await data.prepare(config, ranks);
      const init = options.init && resolve(io.cwd, options.init);
      const report = writeBundle(bundle, { init, prepared });
      output.answer(report, () => report.toString());
      return 0;
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
}

/** Returns the option --to, with what each target is. */
function targetOption(): Option {
  const says = [...targets()].map(([name, { says }]) => `${name}: ${says}`).join('; ');
  return new Option('--to <name>', says).choices([...targets().keys()]);
}

/** Returns the config that the words name or describe. Throws: CONFIG if they are neither one name nor a command. */
function ownConfig(words: readonly string[], cwd: string): TrainConfigInput {
  const [name = '', ...rest] = words;
  if (rest.length === 0) return configNamed(name, cwd);
  throw new ConfigError(
    `export takes one config, not ${words.join(' ')}; write -- before a command that launches a training: -- torchrun train.py`,
  );
}
