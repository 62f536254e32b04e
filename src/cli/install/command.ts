import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { ConfigError, installAdvice, ShardlabError } from '../../core';
import { type Io, orFail, type Perform } from '../io';
import {
  INSTALLATION,
  KERNEL,
  kernelspecFolder,
  removeKernelspec,
  userJupyterFolder,
  writeKernelspec,
} from './kernelspec-folder';
import { describePython, jupyterPython } from './python';

interface Place {
  readonly user?: boolean;
  readonly prefix?: string;
  readonly sysPrefix?: boolean;
}

/** `shardlab install`: writes the Jupyter kernelspec. */
export function declareInstall(command: Command, perform: Perform, io: Io): void {
  perform<Place>(withPlace(command), async (_, place, output) => {
    const data = await dataFolder(place, io);
    checkBuilt();
    const folder = written(data, writeKernelspec);
    output.answer({ installed: folder }, () => `installed ${folder}`);
    return 0;
  });
}

/** `shardlab uninstall`: deletes the Jupyter kernelspec. */
export function declareUninstall(command: Command, perform: Perform, io: Io): void {
  perform<Place>(withPlace(command), async (_, place, output) => {
    const data = await dataFolder(place, io);
    const folder = kernelspecFolder(data);
    const removed = written(data, removeKernelspec);
    output.answer({ folder, removed }, () =>
      removed ? `removed ${folder}` : `nothing was installed in ${folder}`,
    );
    return 0;
  });
}

function withPlace(command: Command): Command {
  return command
    .option('--user', "in the user's Jupyter folder (the default)")
    .option('--prefix <dir>', 'in DIR/share/jupyter')
    .option('--sys-prefix', 'in the Python environment that `shardlab doctor` names');
}

/** Returns Jupyter's data folder. Throws: CONFIG if the user names two places, IO if Python does not run. */
async function dataFolder({ user, prefix, sysPrefix }: Place, io: Io): Promise<string> {
  if ([user, prefix !== undefined, sysPrefix].filter((named) => named === true).length > 1) {
    throw new ConfigError('--user, --prefix and --sys-prefix exclude each other; name one place');
  }
  if (prefix !== undefined) return join(resolve(io.cwd, prefix), 'share', 'jupyter');
  if (sysPrefix !== true) return userJupyterFolder(io.env);
  const python = await describePython(jupyterPython(io.env), io.env);
  if (python !== undefined) return join(python.prefix, 'share', 'jupyter');
  throw new ShardlabError(
    'IO',
    `${jupyterPython(io.env)} does not run; set SHARDLAB_PYTHON to the environment's Python`,
  );
}

function checkBuilt(): void {
  if (existsSync(KERNEL)) return;
  throw new ShardlabError(
    'IO',
    `the kernel is not built (${KERNEL} is missing) in ${INSTALLATION}; run: ${installAdvice().again}`,
  );
}

function written<T>(data: string, write: (data: string) => T): T {
  return orFail(
    () => write(data),
    (reason, cause) =>
      new ShardlabError('IO', `${data} cannot be written (${reason}); name another place with --prefix DIR`, {
        cause,
      }),
  );
}
