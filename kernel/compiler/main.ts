import { NotebookCompiler } from './notebook-compiler';
import { serve } from './serve';

// The program of the compiler process if there is no snapshot. Arguments: the installation and the notebook's folder.
const [, , installation = '', baseDir = ''] = process.argv;
const compiler = new NotebookCompiler(installation);
compiler.open(baseDir);
serve(compiler);
compiler.warmUp();
