import { findInstallation } from '../src/cell/importer';
import { readConnection } from './front/connection';
import { KernelSession } from './front/session';
import { bindSockets } from './front/sockets';
import { Wire } from './front/wire';

/** How often the kernel looks whether the process that started it is still there. */
const PARENT_CHECK_MS = 500;

/** A kernel, as Jupyter starts it: `node main.js CONNECTION_FILE`. */
async function main(connectionFile: string): Promise<void> {
  const connection = readConnection(connectionFile);
  const sockets = await bindSockets(connection, new Wire(connection.key));
  const settings = { baseDir: process.cwd(), installation: findInstallation() };
  const session = new KernelSession(sockets, settings, () => void end());
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

const [, , connectionFile] = process.argv;
if (connectionFile === undefined) {
  process.stderr.write(
    'shardlab kernel: give the connection file that Jupyter wrote: main.js CONNECTION_FILE\n',
  );
  process.exit(2);
}
main(connectionFile).catch((error: unknown) => {
  process.stderr.write(`shardlab kernel: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
});
