import type { ExecutorSettings } from '../executor/protocol';
import type { CompilerClient } from './compiler-client';
import { readConnection } from './connection';
import { KernelSession } from './session';
import { bindSockets } from './sockets';
import { Wire } from './wire';

/** How often the kernel looks whether the process that started it is still there. */
const PARENT_CHECK_MS = 500;

/** Serves the clients of a connection file until one of them ends the kernel, or its parent is gone. */
export async function runKernel(
  connectionFile: string,
  settings: ExecutorSettings,
  compiler: CompilerClient,
): Promise<void> {
  const connection = readConnection(connectionFile);
  const sockets = await bindSockets(connection, new Wire(connection.key));
  const session = new KernelSession(sockets, settings, compiler, () => void end());
  const end = async (): Promise<void> => {
    session.end();
    await sockets.close();
    process.exit(0);
  };
  process.on('SIGTERM', () => void end());
  // Interrupts come as messages; Jupyter's SIGINT to the process group is not for the front.
  process.on('SIGINT', () => {});
  process.on('exit', () => session.end());
  endWithParent(() => void end());
  session.listen();
}

/** Calls back once the parent process is gone. */
function endWithParent(ended: () => void): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    ended();
  }, PARENT_CHECK_MS);
}
