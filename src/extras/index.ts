// Each file registers its program.
import './axolotl/program';
import './kubernetes/program';
import './llama-factory/program';
import './torchtitan/program';
import './trl/program';
