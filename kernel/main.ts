import '../src/core/code-cache/use';
import { findInstallation } from '../src/core';
import { CompilerClient } from './front/compiler-client';

/** Runs a kernel; Jupyter starts it with: `node main.js CONNECTION_FILE`. */
async function main(connectionFile: string): Promise<void> {
  const settings = { baseDir: process.cwd(), installation: findInstallation() };
  // The compiler takes longest to start, so it starts before the rest of the front is loaded.
  const compiler = new CompilerClient(settings);
  const { runKernel } = await import('./front/kernel.js');
  await runKernel(connectionFile, settings, compiler);
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
