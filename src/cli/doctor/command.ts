import { connect } from 'node:net';
import { type Command, Option } from 'commander';
import { ConfigError } from '../../core/errors';
import { sitePackages } from '../../job/launch/site-packages';
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
import { checkJupyter } from './jupyter-checks';
import { checkTorch } from './torch-checks';

/** `shardlab doctor`: reports what this machine has, and how to add what is missing. */
export function addDoctor(program: Command, perform: Perform, io: Io): void {
  const command = program
    .command('doctor')
    .description('reports what this machine has, and how to add what is missing')
    .option('--reach <host:port>', 'only checks whether something answers at this address')
    .option('--calibrate', "only: measures this machine's GPUs with PyTorch, for shardlab plan --calibration")
    .option('--python <path>', "with --calibrate: a Python that has torch (default: Jupyter's Python)")
    .option('--out <file>', 'with --calibrate: the file for the calibration')
    .addOption(
      new Option('--device <name>', 'with --calibrate: the device to measure')
        .choices(['cuda', 'cpu'])
        .default('cuda'),
    );
  perform<DoctorOptions>(command, async (_, options, output) => {
    const { reach } = options;
    if (options.calibrate === true) {
      if (reach !== undefined) throw new ConfigError('--reach and --calibrate: each runs alone; give one');
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
    ...(await checkTorch(env)),
    checkTensorflow(),
    checkSharedMemory(),
    ...(await checkJupyter(env)),
    await checkGpu(env),
    checkFonts(env),
  ];
}

const PATIENCE_MILLISECONDS = 5000;

/** Checks whether something answers at HOST:PORT. Throws: CONFIG if the text is not an address. */
function checkReach(address: string): Promise<Check> {
  const { host, port } = parseAddress(address);
  const name = `reach ${address}`;
  const started = performance.now();
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: PATIENCE_MILLISECONDS });
    const settle = (check: Omit<Check, 'name'>): void => {
      socket.destroy();
      resolve({ name, ...check });
    };
    const fail = (found: string): void => {
      const advice = `does a program listen on port ${port} of ${host}, and do all firewalls in between allow the connection?`;
      settle({ status: 'bad', found, advice, facts: { host, port, reachable: false } });
    };
    socket.once('connect', () => {
      const milliseconds = Math.round(performance.now() - started);
      const facts = { host, port, reachable: true, milliseconds };
      settle({ status: 'good', found: `answers after ${milliseconds} ms`, facts });
    });
    socket.once('timeout', () => fail(`no answer within ${PATIENCE_MILLISECONDS / 1e3} s`));
    socket.once('error', (error) => fail(error.message));
  });
}

function parseAddress(address: string): { readonly host: string; readonly port: number } {
  const match = /^(?:\[([^\]]+)\]|([^:]+)):(\d+)$/.exec(address);
  const port = Number(match?.[3]);
  const host = match?.[1] ?? match?.[2];
  if (host === undefined || port < 1 || port > 65535) {
    throw new ConfigError(
      `--reach ${address} is not an address; give HOST:PORT, such as 10.0.0.2:29500 or [::1]:29500`,
    );
  }
  return { host, port };
}
