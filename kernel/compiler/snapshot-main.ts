import { startupSnapshot } from 'node:v8';
import { NotebookCompiler } from './notebook-compiler';
import { serve } from './serve';

/**
 * Runs while a snapshot is built: fills the compiler, and says what a process that starts from the snapshot does.
 * Its arguments: installation, when built; notebook's folder, when started.
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
