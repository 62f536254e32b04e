import { NotebookCompiler } from './notebook-compiler';
import { serve } from './serve';

// Runs the compiler process if there is no snapshot; the front passes the installation and the notebook's folder.
const [, , installation = '', baseDir = ''] = process.argv;
const compiler = new NotebookCompiler(installation);
compiler.open(baseDir);
serve(compiler);
compiler.warmUp();
