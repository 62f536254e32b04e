import { type Command, Option } from 'commander';
import { ConfigError } from '../../core';
import { sitePackages } from '../../launch';
import { INSTALLATION } from '../install/kernelspec-folder';
import type { Io, Perform } from '../io';
import { type CalibrateOptions, calibrate } from './calibrate';
import {
  asLine,
  type Check,
  checkFonts,
  checkGpu,
  checkHost,
  checkNode,
  checkSharedMemory,
  checkTensorflow,
  checkWasm,
} from './checks';
import { answerDocument, answerDocuments } from './document';
import { checkJupyter } from './jupyter-checks';
import { checkReach } from './reach';
import { MOST_SECONDS } from './reach-probe';
import { checkTorch } from './torch-checks';

/** `shardlab doctor`: reports what this machine has, and how to add what is missing. */
export function declareDoctor(command: Command, perform: Perform, io: Io): void {
  command
    .option(
      '--reach <host:port,...>',
      `instead of the report, tests whether this machine reaches these addresses, or the addresses that a file names (Accelerate's YAML, a launch script, a hostfile), and says what is wrong; ends within ${MOST_SECONDS} s`,
    )
    .option(
      '--document [id]',
      'instead of the report, shows what a document says about its environment, and what this machine has of it; without an id, lists the documents',
    )
    .option(
      '--calibrate',
      "instead of the report, measures this machine's GPUs with PyTorch, for shardlab plan --calibration",
    )
    .option('--python <path>', "with --calibrate: a Python that has torch (default: Jupyter's Python)")
    .option('--out <file>', 'with --calibrate: the file for the calibration')
    .addOption(
      new Option('--device <name>', 'with --calibrate: the device to measure')
        .choices(['cuda', 'cpu'])
        .default('cuda'),
    );
  perform<DoctorOptions>(command, async (_, options, output) => {
    requireOne(options);
    const { reach, document } = options;
    if (options.calibrate === true) {
      await calibrate(options, io, output);
      return 0;
    }
    if (document !== undefined) {
      if (document === true) answerDocuments(output);
      else await answerDocument(document, io, output);
      return 0;
    }
    const checks = reach === undefined ? await checkAll(io.env) : await checkReach(reach, io);
    const good = checks.every(({ status }) => status !== 'bad');
    output.answer({ good, checks }, () => checks.map(asLine).join('\n'));
    return good ? 0 : 1;
  });
}

interface DoctorOptions extends CalibrateOptions {
  readonly reach?: string;
  /** A document's id; true: --document has no id. */
  readonly document?: string | true;
  readonly calibrate?: boolean;
}

/** Throws: CONFIG if two options exclude each other, or if an option lacks the option that it belongs to. */
function requireOne(options: DoctorOptions): void {
  const [first, second] = (['reach', 'document', 'calibrate'] as const).filter(
    (name) => options[name] !== undefined,
  );
  if (second !== undefined) throw new ConfigError(`--${first} and --${second}: each runs alone; give one`);
  if (options.calibrate === true) return;
  for (const name of ['python', 'out'] as const) {
    if (options[name] !== undefined) throw new ConfigError(`--${name} belongs to --calibrate; give both`);
  }
}

async function checkAll(env: NodeJS.ProcessEnv): Promise<readonly Check[]> {
  return [
    checkNode(),
    checkHost(),
    ...(await checkWasm(sitePackages(env, INSTALLATION))),
    ...(await checkTorch(env)),
    checkTensorflow(),
    checkSharedMemory(),
    ...(await checkJupyter(env)),
    await checkGpu(env),
    checkFonts(env),
  ];
}
