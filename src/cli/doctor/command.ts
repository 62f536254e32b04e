import { type Command, Option } from 'commander';
import { ConfigError } from '../../core/errors';
import { sitePackages } from '../../job/launch/site-packages';
import { INSTALLATION } from '../install/kernelspec-folder';
import type { Io, Perform } from '../io';
import { type CalibrateOptions, calibrate } from './calibrate';
import type { Check } from './check';
import { checkGpu, checkSharedMemory, checkTensorflow, checkWasm } from './engine-checks';
import { checkFonts } from './font-check';
import { checkJupyter } from './jupyter-checks';
import { checkHost, checkNode } from './node-check';
import { checkReach } from './reach-check';

/** `shardlab doctor`: reports what this machine has, and how to add what is missing. */
export function addDoctor(program: Command, perform: Perform, io: Io): void {
  const command = program
    .command('doctor')
    .description('reports what this machine has, and how to add what is missing')
    .option('--reach <host:port>', 'only checks whether something answers at this address')
    .option('--calibrate', "only: measures this machine's GPUs with PyTorch, for shardlab plan --calibration")
    .option('--python <path>', 'with --calibrate: a Python that has torch (default: the one beside Jupyter)')
    .option('--out <file>', 'with --calibrate: the file for the calibration')
    .addOption(
      new Option('--device <name>', 'with --calibrate: the device to measure')
        .choices(['cuda', 'cpu'])
        .default('cuda'),
    );
  perform<DoctorOptions>(command, async (_, options, output) => {
    const { reach } = options;
    if (options.calibrate === true) {
      await calibrate(options, io, output);
      return 0;
    }
    for (const name of ['python', 'out'] as const) {
      if (options[name] !== undefined) throw new ConfigError(`--${name} belongs to --calibrate; give both`);
    }
    const checks = reach === undefined ? await checkAll(io.env) : [await checkReach(reach)];
    const good = checks.every(({ status }) => status !== 'bad');
    output.answer({ good, checks }, () => checks.map(asLine).join('\n'));
    return good ? 0 : 1;
  });
}

interface DoctorOptions extends CalibrateOptions {
  readonly reach?: string;
  readonly calibrate?: boolean;
}

async function checkAll(env: NodeJS.ProcessEnv): Promise<readonly Check[]> {
  return [
    checkNode(),
    checkHost(),
    ...(await checkWasm(sitePackages(env, INSTALLATION))),
    checkTensorflow(),
    checkSharedMemory(),
    ...(await checkJupyter(env)),
    await checkGpu(env),
    checkFonts(env),
  ];
}

const MARKS = { good: '✓', note: '·', bad: '✗' } as const;

function asLine({ name, status, found, advice }: Check): string {
  const line = `${MARKS[status]} ${name.padEnd(18)} ${found}`;
  return advice === undefined ? line : `${line}\n  ${' '.repeat(18)} → ${advice}`;
}
