import { startupSnapshot } from 'node:v8';
import { NotebookCompiler } from './notebook-compiler';
import { serve } from './serve';

/**
 * Runs while a snapshot is built. Loads the libraries and packages into the compiler, and sets the main function of processes
 * that start from the snapshot. A process that starts from the snapshot gets the notebook's folder as its argument.
 */
export function buildSnapshot(installation: string): void {
  const compiler = new NotebookCompiler(installation);
  compiler.warmUp();
  compiler.readPackages();
  startupSnapshot.setDeserializeMainFunction(() => {
    compiler.open(process.argv[2] ?? installation);
    serve(compiler);
  });
}
