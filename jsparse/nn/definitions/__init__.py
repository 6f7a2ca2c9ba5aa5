"""Graph layers as values: the parameters that each has, and how it computes with them.

`jsparse.nnx` and `jsparse.linen` make modules of these, which are equal where their parameters are.
"""

from jsparse.nn.definitions.attention import GAT as GAT
from jsparse.nn.definitions.attention import GATv2 as GATv2
from jsparse.nn.definitions.attention import Transformer as Transformer
from jsparse.nn.definitions.convolutions import GCN as GCN
from jsparse.nn.definitions.convolutions import GIN as GIN
from jsparse.nn.definitions.convolutions import RGCN as RGCN
from jsparse.nn.definitions.convolutions import SAGE as SAGE
from jsparse.nn.definitions.convolutions import Edge as Edge
from jsparse.nn.definitions.multi_head import MultiHead as MultiHead
from jsparse.nn.definitions.multi_head import mask_pattern as mask_pattern
from jsparse.nn.definitions.parameters import Definition as Definition
from jsparse.nn.definitions.parameters import Initializers as Initializers
from jsparse.nn.definitions.parameters import Parameter as Parameter
from jsparse.nn.definitions.parameters import call_options as call_options
from jsparse.nn.definitions.parameters import check_dtypes as check_dtypes
from jsparse.nn.definitions.parameters import check_sizes as check_sizes
from jsparse.nn.definitions.parameters import edge_array as edge_array
from jsparse.nn.definitions.parameters import features as features
from jsparse.nn.definitions.parameters import weighted as weighted
