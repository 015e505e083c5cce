"""ONNX's own tests that this project refuses, by what the error says: dtypes and modes that are not supported."""

from __future__ import annotations

REASONS: dict[str, str] = {
    "unsupported dtype FLOAT4E2M1;": """
        cast_FLOAT16_to_FLOAT4E2M1 cast_FLOAT4E2M1_to_FLOAT cast_FLOAT4E2M1_to_FLOAT16 cast_FLOAT_to_FLOAT4E2M1
        castlike_FLOAT16_to_FLOAT4E2M1 castlike_FLOAT16_to_FLOAT4E2M1_expanded castlike_FLOAT4E2M1_to_FLOAT
        castlike_FLOAT4E2M1_to_FLOAT16 castlike_FLOAT4E2M1_to_FLOAT16_expanded castlike_FLOAT4E2M1_to_FLOAT_expanded
        castlike_FLOAT_to_FLOAT4E2M1 castlike_FLOAT_to_FLOAT4E2M1_expanded dequantizelinear_float4e2m1
        quantizelinear_float4e2m1
    """,
    "unsupported dtype FLOAT8E4M3FN;": """
        cast_FLOAT16_to_FLOAT8E4M3FN cast_FLOAT8E4M3FN_to_FLOAT cast_FLOAT8E4M3FN_to_FLOAT16 cast_FLOAT_to_FLOAT8E4M3FN
        cast_no_saturate_FLOAT16_to_FLOAT8E4M3FN cast_no_saturate_FLOAT_to_FLOAT8E4M3FN castlike_FLOAT16_to_FLOAT8E4M3FN
        castlike_FLOAT16_to_FLOAT8E4M3FN_expanded castlike_FLOAT8E4M3FN_to_FLOAT castlike_FLOAT8E4M3FN_to_FLOAT16
        castlike_FLOAT8E4M3FN_to_FLOAT16_expanded castlike_FLOAT8E4M3FN_to_FLOAT_expanded castlike_FLOAT_to_FLOAT8E4M3FN
        castlike_FLOAT_to_FLOAT8E4M3FN_expanded castlike_no_saturate_FLOAT16_to_FLOAT8E4M3FN
        castlike_no_saturate_FLOAT16_to_FLOAT8E4M3FN_expanded castlike_no_saturate_FLOAT_to_FLOAT8E4M3FN
        castlike_no_saturate_FLOAT_to_FLOAT8E4M3FN_expanded dequantizelinear_e4m3fn dequantizelinear_e4m3fn_float16
        dequantizelinear_e4m3fn_zero_point quantizelinear_e4m3fn
    """,
    "unsupported dtype FLOAT8E4M3FNUZ;": """
        cast_FLOAT16_to_FLOAT8E4M3FNUZ cast_FLOAT8E4M3FNUZ_to_FLOAT cast_FLOAT8E4M3FNUZ_to_FLOAT16
        cast_FLOAT_to_FLOAT8E4M3FNUZ cast_no_saturate_FLOAT16_to_FLOAT8E4M3FNUZ cast_no_saturate_FLOAT_to_FLOAT8E4M3FNUZ
        castlike_FLOAT16_to_FLOAT8E4M3FNUZ castlike_FLOAT16_to_FLOAT8E4M3FNUZ_expanded castlike_FLOAT8E4M3FNUZ_to_FLOAT
        castlike_FLOAT8E4M3FNUZ_to_FLOAT16 castlike_FLOAT8E4M3FNUZ_to_FLOAT16_expanded
        castlike_FLOAT8E4M3FNUZ_to_FLOAT_expanded castlike_FLOAT_to_FLOAT8E4M3FNUZ
        castlike_FLOAT_to_FLOAT8E4M3FNUZ_expanded castlike_no_saturate_FLOAT16_to_FLOAT8E4M3FNUZ
        castlike_no_saturate_FLOAT16_to_FLOAT8E4M3FNUZ_expanded castlike_no_saturate_FLOAT_to_FLOAT8E4M3FNUZ
        castlike_no_saturate_FLOAT_to_FLOAT8E4M3FNUZ_expanded
    """,
    "unsupported dtype FLOAT8E5M2;": """
        cast_FLOAT16_to_FLOAT8E5M2 cast_FLOAT8E5M2_to_FLOAT cast_FLOAT8E5M2_to_FLOAT16 cast_FLOAT_to_FLOAT8E5M2
        cast_no_saturate_FLOAT16_to_FLOAT8E5M2 cast_no_saturate_FLOAT_to_FLOAT8E5M2 castlike_FLOAT16_to_FLOAT8E5M2
        castlike_FLOAT16_to_FLOAT8E5M2_expanded castlike_FLOAT8E5M2_to_FLOAT castlike_FLOAT8E5M2_to_FLOAT16
        castlike_FLOAT8E5M2_to_FLOAT16_expanded castlike_FLOAT8E5M2_to_FLOAT_expanded castlike_FLOAT_to_FLOAT8E5M2
        castlike_FLOAT_to_FLOAT8E5M2_expanded castlike_no_saturate_FLOAT16_to_FLOAT8E5M2
        castlike_no_saturate_FLOAT16_to_FLOAT8E5M2_expanded castlike_no_saturate_FLOAT_to_FLOAT8E5M2
        castlike_no_saturate_FLOAT_to_FLOAT8E5M2_expanded dequantizelinear_e5m2 quantizelinear_e5m2
    """,
    "unsupported dtype FLOAT8E5M2FNUZ;": """
        cast_FLOAT16_to_FLOAT8E5M2FNUZ cast_FLOAT8E5M2FNUZ_to_FLOAT cast_FLOAT8E5M2FNUZ_to_FLOAT16
        cast_FLOAT_to_FLOAT8E5M2FNUZ cast_no_saturate_FLOAT16_to_FLOAT8E5M2FNUZ cast_no_saturate_FLOAT_to_FLOAT8E5M2FNUZ
        castlike_FLOAT16_to_FLOAT8E5M2FNUZ castlike_FLOAT16_to_FLOAT8E5M2FNUZ_expanded castlike_FLOAT8E5M2FNUZ_to_FLOAT
        castlike_FLOAT8E5M2FNUZ_to_FLOAT16 castlike_FLOAT8E5M2FNUZ_to_FLOAT16_expanded
        castlike_FLOAT8E5M2FNUZ_to_FLOAT_expanded castlike_FLOAT_to_FLOAT8E5M2FNUZ
        castlike_FLOAT_to_FLOAT8E5M2FNUZ_expanded castlike_no_saturate_FLOAT16_to_FLOAT8E5M2FNUZ
        castlike_no_saturate_FLOAT16_to_FLOAT8E5M2FNUZ_expanded castlike_no_saturate_FLOAT_to_FLOAT8E5M2FNUZ
        castlike_no_saturate_FLOAT_to_FLOAT8E5M2FNUZ_expanded
    """,
    "unsupported dtype INT2;": """
        cast_FLOAT16_to_INT2 cast_FLOAT_to_INT2 cast_INT2_to_FLOAT cast_INT2_to_FLOAT16 cast_INT2_to_INT8
        castlike_FLOAT16_to_INT2 castlike_FLOAT16_to_INT2_expanded castlike_FLOAT_to_INT2
        castlike_FLOAT_to_INT2_expanded castlike_INT2_to_FLOAT castlike_INT2_to_FLOAT16
        castlike_INT2_to_FLOAT16_expanded castlike_INT2_to_FLOAT_expanded castlike_INT2_to_INT8
        castlike_INT2_to_INT8_expanded dequantizelinear_int2 quantizelinear_int2
    """,
    "unsupported dtype INT4;": """
        cast_FLOAT16_to_INT4 cast_FLOAT_to_INT4 cast_INT4_to_FLOAT cast_INT4_to_FLOAT16 cast_INT4_to_INT8
        castlike_FLOAT16_to_INT4 castlike_FLOAT16_to_INT4_expanded castlike_FLOAT_to_INT4
        castlike_FLOAT_to_INT4_expanded castlike_INT4_to_FLOAT castlike_INT4_to_FLOAT16
        castlike_INT4_to_FLOAT16_expanded castlike_INT4_to_FLOAT_expanded castlike_INT4_to_INT8
        castlike_INT4_to_INT8_expanded dequantizelinear_int4 quantizelinear_int4
    """,
    "unsupported dtype UINT2;": """
        cast_FLOAT16_to_UINT2 cast_FLOAT_to_UINT2 cast_UINT2_to_FLOAT cast_UINT2_to_FLOAT16 cast_UINT2_to_UINT8
        castlike_FLOAT16_to_UINT2 castlike_FLOAT16_to_UINT2_expanded castlike_FLOAT_to_UINT2
        castlike_FLOAT_to_UINT2_expanded castlike_UINT2_to_FLOAT castlike_UINT2_to_FLOAT16
        castlike_UINT2_to_FLOAT16_expanded castlike_UINT2_to_FLOAT_expanded castlike_UINT2_to_UINT8
        castlike_UINT2_to_UINT8_expanded dequantizelinear_uint2 quantizelinear_uint2
    """,
    "unsupported dtype UINT4;": """
        cast_FLOAT16_to_UINT4 cast_FLOAT_to_UINT4 cast_UINT4_to_FLOAT cast_UINT4_to_FLOAT16 cast_UINT4_to_UINT8
        castlike_FLOAT16_to_UINT4 castlike_FLOAT16_to_UINT4_expanded castlike_FLOAT_to_UINT4
        castlike_FLOAT_to_UINT4_expanded castlike_UINT4_to_FLOAT castlike_UINT4_to_FLOAT16
        castlike_UINT4_to_FLOAT16_expanded castlike_UINT4_to_FLOAT_expanded castlike_UINT4_to_UINT8
        castlike_UINT4_to_UINT8_expanded dequantizelinear_uint4 quantizelinear_uint4
    """,
    "unsupported dtype FLOAT8E8M0;": """
        cast_e8m0_FLOAT16_to_FLOAT8E8M0 cast_e8m0_FLOAT8E8M0_to_FLOAT cast_e8m0_FLOAT8E8M0_to_FLOAT16
        cast_e8m0_FLOAT_to_FLOAT8E8M0
    """,
    "unsupported dtype STRING;": """
        equal_string equal_string_broadcast
    """,
    "mode='cubic': not supported": """
        resize_downsample_scales_cubic resize_downsample_scales_cubic_A_n0p5_exclude_outside
        resize_downsample_scales_cubic_align_corners resize_downsample_scales_cubic_antialias
        resize_downsample_sizes_cubic resize_downsample_sizes_cubic_antialias resize_upsample_scales_cubic
        resize_upsample_scales_cubic_A_n0p5_exclude_outside resize_upsample_scales_cubic_align_corners
        resize_upsample_scales_cubic_asymmetric resize_upsample_sizes_cubic
    """,
    "antialias=1: not supported": """
        resize_downsample_scales_linear_antialias resize_downsample_sizes_linear_antialias
    """,
}

UNSUPPORTED = {f"node/test_{name}": reason for reason, names in REASONS.items() for name in names.split()}
"""The name of a test, and a part of the error it gets."""
