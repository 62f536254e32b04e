import { inspect } from 'node:util';
import { watchStrayErrors } from '../../src/cell/stray-errors';
import { type Warn, warnOnce } from '../../src/core/warn';
import type { ExecutorSettings } from '../executor/protocol';
import type { CompilerClient } from './compiler-client';
import { readConnection } from './connection';
import { KernelSession } from './session';
import { bindSockets } from './sockets';
import { Wire } from './wire';

/** How often the kernel checks whether its parent process still exists. */
const PARENT_CHECK_MS = 500;

/** Serves the clients of a connection file until one of them ends the kernel, or its parent is gone. */
export async function runKernel(
  connectionFile: string,
  settings: ExecutorSettings,
  compiler: CompilerClient,
): Promise<void> {
  const connection = readConnection(connectionFile);
  const warn = warnOnce(log);
  const sockets = await bindSockets(connection, new Wire(connection.key), warn);
  const session = new KernelSession({ sockets, settings, compiler, warn, ended: () => void end() });
  const end = async (): Promise<void> => {
    session.end();
    await sockets.close();
    process.exit(0);
  };
  process.on('SIGTERM', () => void end());
  // Interrupts come as messages; Jupyter's SIGINT to the process group is not for the front.
  process.on('SIGINT', () => {});
  process.on('exit', () => session.end());
  // The reader of the log may be gone; that is not an error to log.
  process.stderr.on('error', () => undefined);
  endWithParent(() => void end());
  // The last resort, because all variables would be lost with the front.
  watchStrayErrors(({ thrown }) => log(`nobody caught this, and the kernel continues: ${inspect(thrown)}`));
  session.listen();
}

const log: Warn = (message) => {
  process.stderr.write(`shardlab kernel: ${message}\n`);
};

/** Calls back once the parent process is gone. */
function endWithParent(ended: () => void): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    ended();
  }, PARENT_CHECK_MS);
}
