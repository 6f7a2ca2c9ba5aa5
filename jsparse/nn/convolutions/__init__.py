"""Graph convolutions: sums, means and maxima of what neighbours send."""

from jsparse.nn.convolutions.edge import edge_conv as edge_conv
from jsparse.nn.convolutions.gcn import gcn_conv as gcn_conv
from jsparse.nn.convolutions.gin import gin_conv as gin_conv
from jsparse.nn.convolutions.rgcn import basis_kernel as basis_kernel
from jsparse.nn.convolutions.rgcn import rgcn_conv as rgcn_conv
from jsparse.nn.convolutions.sage import sage_conv as sage_conv
